import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Publishes numbered messages to one topic of a Kafka broker, receives them from another, and counts: {@link Load} with the
 * clients of Kafka, {@code java KafkaLoad PORT [QUIET]}. Both topics have one partition.
 */
public final class KafkaLoad {
    private static int quietSeconds = 60;

    private KafkaLoad() {}

    public static void main(String[] arguments) throws Exception {
        String servers = "127.0.0.1:" + arguments[0];
        quietSeconds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : quietSeconds;
        Flow.serve(new Flow.Clients() {
            @Override
            public Flow.Publisher publisher(Map<String, String> options, int run, boolean paced) {
                return new Publisher(servers, options.get("out"), run, Commands.size(options), paced ? 0 : 5);
            }

            @Override
            public Flow.Receiver receiver(String topic, int run, int messages) {
                return new Receiver(servers, topic, run, messages);
            }
        });
    }

    private static final class Publisher implements Flow.Publisher {
        private final KafkaProducer<byte[], byte[]> producer;
        private final String topic;
        private final byte[] payload;

        Publisher(String servers, String topic, int run, int size, int lingerMillis) {
            this.topic = topic;
            this.payload = new byte[size];
            Tally.prepare(payload, 0, size, run);
            this.producer = new KafkaProducer<>(
                    Map.of("bootstrap.servers", servers, "acks", "all", "linger.ms", lingerMillis),
                    new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public void publish(int number) {
            byte[] value = payload.clone();
            Tally.stamp(value, 0, number);
            producer.send(new ProducerRecord<>(topic, value));
        }

        /** The producer sends when its time to linger is over. */
        @Override
        public void flush() {}

        @Override
        public void awaitAcknowledged() {
            producer.flush();
        }

        @Override
        public void close() {
            producer.close();
        }
    }

    /** Receives what is committed from the end of a topic on. */
    private static final class Receiver implements Flow.Receiver {
        private final Tally tally;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final CountDownLatch over = new CountDownLatch(1);
        private volatile boolean closed;

        Receiver(String servers, String topic, int run, int messages) {
            tally = new Tally(run, messages);
            consumer = new KafkaConsumer<>(
                    Map.of("bootstrap.servers", servers, "isolation.level", "read_committed", "enable.auto.commit", false),
                    new ByteArrayDeserializer(), new ByteArrayDeserializer());
            List<TopicPartition> only = List.of(new TopicPartition(topic, 0));
            consumer.assign(only);
            consumer.seekToEnd(only);
            consumer.position(only.get(0));
            Thread reader = new Thread(this::read, "receiver");
            reader.setDaemon(true);
            reader.start();
        }

        @Override
        public Tally tally() {
            return tally;
        }

        private void read() {
            long last = System.nanoTime();
            while (tally.missing() > 0 && !closed && System.nanoTime() - last < quietSeconds * 1_000_000_000L) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                    last = System.nanoTime();
                    tally.add(each.value(), 0, each.value().length, last);
                }
            }
            if (tally.missing() > 0) {
                tally.endQuiet(quietSeconds);
            } else {
                tally.end(null);
            }
            consumer.close();
            over.countDown();
        }

        @Override
        public void close() throws InterruptedException {
            closed = true;
            over.await();
        }
    }
}
