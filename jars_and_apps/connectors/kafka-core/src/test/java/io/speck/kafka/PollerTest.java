package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import io.speck.mqtt.MqttException;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The thread that polls, over Kafka's {@code MockConsumer}. */
class PollerTest {
    private static final SourceSettings SETTINGS = Recorded.settings("kafka://k:9092", "s");
    private static final TopicPartition IN = new TopicPartition("in", 0);
    private static final TopicPartition CONTROL = new TopicPartition(Topics.CONTROL, 0);

    private final Broker broker = new Broker();
    private final Calls calls = new Calls();
    private Poller poller;

    @AfterEach
    void end() {
        poller.close();
    }

    private void begin() {
        broker.assign(List.of(IN, CONTROL));
        broker.seek(IN, 0);
        broker.seek(CONTROL, 0);
        poller = new Poller(SETTINGS, broker, "id", calls, List.of(IN), CONTROL);
    }

    /** Returns the next element, for which a slow machine has time. */
    private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
        T found = queue.poll(30, TimeUnit.SECONDS);
        assertNotNull(found);
        return found;
    }

    @Test
    void aCommitUnderWayIsNotPutBackByTheLastOne() throws InterruptedException {
        begin();
        broker.answers = true;
        calls.due.add(Place.at(Map.of(0, 10L)));
        assertEquals(10, next(broker.commits));
        broker.answers = false;
        calls.due.add(Place.at(Map.of(0, 20L)));
        assertEquals(20, next(broker.commits));
        poller.close();
        assertEquals(20, next(broker.commits));
        assertEquals(0, broker.commits.size());
    }

    /** A broker that does not answer commits, if it is told so. */
    private static final class Broker extends MockConsumer<byte[], byte[]> {
        final BlockingQueue<Long> commits = new LinkedBlockingQueue<>();
        volatile boolean answers;

        Broker() {
            super("none");
        }

        @Override
        public void commitAsync(Map<TopicPartition, OffsetAndMetadata> offsets, OffsetCommitCallback callback) {
            if (answers) {
                callback.onComplete(offsets, null);
            }
            commits.add(offsets.get(IN).offset());
        }

        @Override
        public void commitSync(Map<TopicPartition, OffsetAndMetadata> offsets, Duration timeout) {
            commits.add(offsets.get(IN).offset());
        }
    }

    /** The calls of the poller. */
    private static final class Calls implements Poller.Reader {
        final BlockingQueue<Place> due = new LinkedBlockingQueue<>();
        final BlockingQueue<String> control = new LinkedBlockingQueue<>();
        final BlockingQueue<KafkaMessage> arrived = new LinkedBlockingQueue<>();
        final BlockingQueue<MqttException> failures = new LinkedBlockingQueue<>();

        @Override
        public void control(ConsumerRecord<byte[], byte[]> record) {
            control.add(new String(record.key(), java.nio.charset.StandardCharsets.UTF_8));
        }

        @Override
        public boolean needsWriters(KafkaMessage message) {
            return false;
        }

        @Override
        public void arrived(List<KafkaMessage> messages) {
            arrived.addAll(messages);
        }

        @Override
        public boolean awaitRoom(long nanos) throws InterruptedException {
            TimeUnit.MILLISECONDS.sleep(1); // a poll of the double does not wait
            return true;
        }

        @Override
        public Place takeCommit() {
            return due.poll();
        }

        @Override
        public long messages() {
            return 0;
        }

        @Override
        public void commitFailed() {}

        @Override
        public void lost(String reason, long count, String cause) {}

        @Override
        public void reached(int partition, long offset) {}

        @Override
        public void failed(MqttException error) {
            failures.add(error);
        }
    }
}
