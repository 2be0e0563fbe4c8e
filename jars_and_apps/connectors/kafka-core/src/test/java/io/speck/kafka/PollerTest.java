package io.speck.kafka;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Losses;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The thread that polls, over Kafka's {@code MockConsumer}. */
class PollerTest {
    private static final SourceSettings SETTINGS = Recorded.settings("kafka://k:9092", "s");
    private static final TopicPartition IN = new TopicPartition("in", 0);
    private static final TopicPartition OTHER = new TopicPartition("in", 1);
    private static final TopicPartition THIRD = new TopicPartition("in", 2);
    private static final TopicPartition CONTROL = new TopicPartition(Topics.CONTROL, 0);

    private final Broker broker = new Broker();
    private final Calls calls = new Calls();
    private volatile TopicWatch.Topic topic = new TopicWatch.Topic("id", 2);
    private volatile boolean closed;
    private Poller poller;

    @AfterEach
    void end() {
        poller.close();
    }

    private void begin() {
        List<TopicPartition> all = List.of(IN, OTHER, CONTROL);
        broker.assign(all);
        all.forEach(each -> broker.seek(each, 0));
        TopicWatch watch = new TopicWatch(SETTINGS, () -> CompletableFuture.completedFuture(topic), () -> closed = true);
        watch.reads(topic);
        poller = new Poller(SETTINGS, broker, watch, calls, List.of(IN, OTHER), CONTROL);
    }

    private void send(TopicPartition partition, long offset) {
        broker.addRecord(new ConsumerRecord<>(partition.topic(), partition.partition(), offset, "key".getBytes(UTF_8),
                ("value " + offset).getBytes(UTF_8)));
    }

    private void sendStamped(long offset) {
        ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("in", 0, offset, null, new byte[0]);
        RecordDecoder.stamp(record.headers(), "new".getBytes(UTF_8), ("r/0/0/" + offset).getBytes(UTF_8));
        broker.addRecord(record);
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

    /** The fence is in another partition, whose leader may well be reached. */
    @Test
    void aPartitionWhoseLeaderIsOutOfReachHoldsBackNothingElse() throws InterruptedException {
        broker.outOfReach = true;
        begin();
        assertEquals(OTHER.partition(), next(calls.reached));
        send(CONTROL, 0);
        send(OTHER, 0);
        assertEquals("key", next(calls.control));
        assertEquals(OTHER.partition(), next(calls.arrived).partition);
        broker.outOfReach = false;
        while (next(calls.reached) != IN.partition()) {
            assertEquals(0, calls.failures.size());
        }
        poller.close();
        assertEquals(0, calls.failures.size());
    }

    /** Messages that were polled wait for the list of their writers, and must not be lost meanwhile. */
    @Test
    void messagesInHandArriveAlthoughThoseBehindThemWereDeleted() throws InterruptedException {
        broker.updateEndOffsets(Map.of(IN, 5L, CONTROL, 1L));
        calls.unknownWriter = () -> {
            broker.updateBeginningOffsets(Map.of(IN, 5L, OTHER, 0L));
            broker.setPollException(new OffsetOutOfRangeException(Map.of(IN, 1L)));
            send(CONTROL, 0);
        };
        begin();
        sendStamped(0);
        assertEquals(0, next(calls.arrived).position);
        assertEquals("key", next(calls.control));
        assertEquals(Losses.RETENTION, next(calls.losses));
        poller.close();
        assertEquals(0, calls.failures.size());
    }

    /** Nothing is out of range there, so that the consumer would go on behind what it has read of the former topic. */
    @Test
    void aTopicMadeAnewIsReadFromItsBeginningAlthoughItHasAsManyMessages() throws InterruptedException {
        broker.updateBeginningOffsets(Map.of(IN, 0L, OTHER, 0L, THIRD, 0L));
        begin();
        send(IN, 0);
        send(IN, 1);
        assertEquals(0, next(calls.arrived).position);
        assertEquals(1, next(calls.arrived).position);
        topic = new TopicWatch.Topic("other", 3);
        assertEquals(Losses.SESSION, next(calls.losses));
        while (!broker.assignment().contains(THIRD)) {
            Thread.onSpinWait();
        }
        for (TopicPartition each : List.of(IN, THIRD)) {
            send(each, 0);
            KafkaMessage found = next(calls.arrived);
            assertEquals(List.of(each.partition(), 0L), List.of(found.partition, found.position));
            assertTrue(found.epoch > 0, "an epoch behind all of the former topic");
        }
        send(CONTROL, 0);
        assertEquals("key", next(calls.control));
        poller.close();
        assertEquals(0, calls.failures.size());
        assertEquals(0, calls.losses.size());
        assertTrue(closed);
    }

    @Test
    void partitionsThatAreAddedAreReadFromTheirBeginningAndTheOthersWhereTheyAre() throws InterruptedException {
        begin();
        send(IN, 0);
        assertEquals(0, next(calls.arrived).position);
        topic = new TopicWatch.Topic("id", 3);
        assertEquals(List.of(2), next(calls.added));
        while (!broker.assignment().contains(THIRD)) {
            Thread.onSpinWait();
        }
        for (int offset = 0; offset < 2; offset++) {
            send(THIRD, offset);
            KafkaMessage found = next(calls.arrived);
            assertEquals(List.of(2, (long) offset), List.of(found.partition, found.position));
        }
        send(IN, 1);
        assertEquals(1, next(calls.arrived).position);
        send(CONTROL, 0);
        assertEquals("key", next(calls.control));
        poller.close();
        assertEquals(List.of(0, 0, 0), List.of(calls.failures.size(), calls.losses.size(), calls.added.size()));
    }

    /** A broker that can be set not to respond to commits. */
    private static final class Broker extends MockConsumer<byte[], byte[]> {
        final BlockingQueue<Long> commits = new LinkedBlockingQueue<>();
        volatile boolean answers;
        volatile boolean outOfReach;

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
        public synchronized long position(TopicPartition partition) {
            if (outOfReach && partition.equals(IN)) {
                throw new TimeoutException("the leader does not answer");
            }
            return super.position(partition);
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
        final BlockingQueue<Integer> reached = new LinkedBlockingQueue<>();
        final BlockingQueue<String> losses = new LinkedBlockingQueue<>();
        final BlockingQueue<List<Integer>> added = new LinkedBlockingQueue<>();
        final BlockingQueue<MqttException> failures = new LinkedBlockingQueue<>();
        volatile Runnable unknownWriter = () -> { };

        @Override
        public void control(ConsumerRecord<byte[], byte[]> record) {
            control.add(new String(record.key(), UTF_8));
        }

        @Override
        public boolean needsWriters(KafkaMessage message) {
            if (message.stamp == null) {
                return false;
            }
            unknownWriter.run();
            return true;
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
        public void lost(String reason, long count, String cause) {
            losses.add(reason);
        }

        @Override
        public void madeAnew(String topicId, long times, Map<Integer, Long> begins) {
            assertEquals("other", topicId);
            assertEquals(1, times);
            assertEquals(Map.of(0, 0L, 1, 0L, 2, 0L), begins);
            losses.add(Losses.SESSION);
        }

        @Override
        public void added(List<Integer> partitions) {
            added.add(partitions);
        }

        @Override
        public void reached(int partition, long offset) {
            reached.add(partition);
        }

        @Override
        public void failed(MqttException error) {
            failures.add(error);
        }
    }
}
