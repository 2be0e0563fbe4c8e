import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
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
    private static int runs;

    private KafkaLoad() {}

    public static void main(String[] arguments) throws Exception {
        String servers = "127.0.0.1:" + arguments[0];
        quietSeconds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : quietSeconds;
        Commands.serve(Map.of("flood", options -> flood(servers, options), "paced", options -> paced(servers, options)));
    }

    private static String flood(String servers, Map<String, String> options) throws Exception {
        int messages = Integer.parseInt(options.get("messages"));
        int run = ++runs;
        try (Receiver receiver = new Receiver(servers, options.get("in"), run, messages);
                Publisher publisher = new Publisher(servers, options.get("out"), run, Commands.size(options), 5)) {
            long first = System.nanoTime();
            for (int number = 0; number < messages; number++) {
                publisher.publish(number);
            }
            publisher.producer.flush();
            long published = System.nanoTime();
            receiver.awaitAll();
            return receiver.tally.counts(messages) + String.format(Locale.ROOT,
                    ", \"publish_seconds\": %.6f, \"seconds\": %.6f}",
                    (published - first) / 1e9, (receiver.tally.lastNanos - first) / 1e9);
        }
    }

    private static String paced(String servers, Map<String, String> options) throws Exception {
        double rate = Double.parseDouble(options.get("rate"));
        int messages = (int) (rate * Double.parseDouble(options.get("seconds")));
        int unmeasured = (int) (rate * Double.parseDouble(options.getOrDefault("warmup", "0")));
        int run = ++runs;
        try (Receiver receiver = new Receiver(servers, options.get("in"), run, unmeasured + messages);
                Publisher publisher = new Publisher(servers, options.get("out"), run, Commands.size(options), 0)) {
            long first = System.nanoTime();
            for (int number = 0; number < unmeasured + messages; number++) {
                long due = first + (long) (number * 1e9 / rate);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
                publisher.publish(number);
            }
            receiver.awaitAll();
            return receiver.tally.counts(unmeasured + messages) + receiver.tally.percentiles(unmeasured) + "}";
        }
    }

    private static final class Publisher implements AutoCloseable {
        final KafkaProducer<byte[], byte[]> producer;
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

        void publish(int number) {
            byte[] value = payload.clone();
            Tally.stamp(value, 0, number);
            producer.send(new ProducerRecord<>(topic, value));
        }

        @Override
        public void close() {
            producer.close();
        }
    }

    /** Receives what is committed from the end of a topic on. */
    private static final class Receiver implements AutoCloseable {
        final Tally tally;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final CountDownLatch all = new CountDownLatch(1);
        private volatile IOException failure;

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

        /** Until everything came, or nothing more did for a while. */
        void awaitAll() throws IOException, InterruptedException {
            all.await();
            if (failure != null) {
                throw failure;
            }
        }

        private void read() {
            long last = System.nanoTime();
            while (tally.missing() > 0 && failure == null) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                    last = System.nanoTime();
                    tally.add(each.value(), 0, each.value().length, last);
                }
                if (System.nanoTime() - last > quietSeconds * 1_000_000_000L) {
                    failure = new IOException(tally.missing() + " messages had not come when " + quietSeconds
                            + " s were quiet");
                }
            }
            consumer.close();
            all.countDown();
        }

        @Override
        public void close() throws InterruptedException {
            failure = failure == null ? new IOException("closed") : failure;
            all.await();
        }
    }
}
