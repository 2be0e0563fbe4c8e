import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The plainest relay: a consumer and a producer in one thread, {@code java KafkaRelay PORT FROM TO}, at least once. It
 * commits once a second what the broker has acknowledged. Prints {@code ready} when it has its partition.
 */
public final class KafkaRelay {
    private KafkaRelay() {}

    public static void main(String[] arguments) {
        String servers = "127.0.0.1:" + arguments[0];
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                        Map.of("bootstrap.servers", servers, "group.id", "relay", "enable.auto.commit", false,
                                "auto.offset.reset", "earliest"),
                        new ByteArrayDeserializer(), new ByteArrayDeserializer());
                KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                        Map.of("bootstrap.servers", servers, "acks", "all"),
                        new ByteArraySerializer(), new ByteArraySerializer())) {
            consumer.subscribe(List.of(arguments[1]));
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(100));
            }
            System.out.println("ready");
            for (long committed = System.nanoTime();;) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<byte[], byte[]> each : records) {
                    producer.send(new ProducerRecord<>(arguments[2], each.value()));
                }
                if (System.nanoTime() - committed > 1_000_000_000L) {
                    producer.flush();
                    consumer.commitSync();
                    committed = System.nanoTime();
                }
            }
        }
    }
}
