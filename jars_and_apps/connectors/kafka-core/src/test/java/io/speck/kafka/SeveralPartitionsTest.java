package io.speck.kafka;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Message;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A reader of a topic with two partitions, one of which may have been added to it, over Kafka's {@code MockConsumer}. */
class SeveralPartitionsTest {
    private final BatchJournal journal = Recorded.journal(Map.of());
    private final List<List<String>> logs = new CopyOnWriteArrayList<>();
    /** Behind the records of the second partition. */
    private volatile int marks;
    private volatile Map<TopicPartition, OffsetAndMetadata> commits =
            Map.of(new TopicPartition("in", 0), new OffsetAndMetadata(0));

    private void addPartition(String... contents) {
        logs.add(new CopyOnWriteArrayList<>(contents));
    }

    private Source opened(boolean streaming, long start, long end) throws IOException, InterruptedException {
        Source source = new Source(streaming);
        source.openWhole(start, end);
        return source;
    }

    @Test
    void aRestartContinuesInAllPartitions() throws IOException, InterruptedException {
        addPartition("a0", "a1");
        try (Source source = opened(false, 0, 0)) {
            assertEquals(List.of("a0", "a1"), source.batch(0, 2));
            source.commit(2);
            addPartition("b0", "b1", "b2");
            assertEquals(List.of("b0", "b1", "b2"), source.batch(2, 5));
            source.commit(5);
        }
        assertEquals(Map.of(0, 2L, 1, 3L), committed());
        logs.get(0).add("a2");
        logs.get(1).add("b3");
        try (Source source = opened(false, 5, 5)) {
            assertEquals(Set.of("a2", "b3"), Set.copyOf(source.batch(5, 7)));
        }
    }

    @Test
    void aBatchOfBothPartitionsIsRunAgain() throws IOException, InterruptedException {
        addPartition("a0");
        List<String> before;
        try (Source source = opened(false, 0, 0)) {
            source.awaitEnd(1);
            addPartition("b0", "b1");
            before = source.batch(0, 3);
        }
        try (Source source = opened(false, 0, 3)) {
            assertEquals(before, source.texts(0, 3));
            logs.get(1).add("b2");
            assertEquals(List.of("b2"), source.batch(3, 4));
        }
    }

    /** Their names are those of what the job makes of them, by which the next reader drops repetitions. */
    @Test
    void theMessagesOfABatchThatIsRunAgainKeepTheirNames() throws IOException, InterruptedException {
        addPartition("a0");
        List<Stamp> before;
        try (Source source = opened(false, 0, 0)) {
            source.awaitEnd(1);
            addPartition("b0");
            source.batch(0, 2);
            before = source.messages(0, 2).stream().map(Message::stamp).toList();
        }
        try (Source source = opened(false, 0, 2)) {
            assertEquals(before, source.messages(0, 2).stream().map(Message::stamp).toList());
        }
    }

    @Test
    void anIdleReaderShowsThatANewPartitionIsUnread() throws Exception {
        addPartition();
        try (Source source = opened(true, 0, 0)) {
            addPartition();
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            while (!committed().containsKey(1) && System.nanoTime() < deadline) {
                Thread.sleep(10);
            }
            assertEquals(0, source.metrics().received());
        }
        assertEquals(Map.of(0, 0L, 1, 0L), committed());
    }

    /** In both cases its checkpoint does not know the partition. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aPartitionOfAJobThatWasDownIsReadFromItsBeginning(boolean streaming) throws IOException, InterruptedException {
        addPartition("a0");
        try (Source source = opened(false, 0, 0)) {
            source.batch(0, 1);
            source.commit(1);
        }
        addPartition("b0", "b1");
        try (Source source = opened(streaming, 1, 1)) {
            source.awaitEnd(3);
            assertEquals(List.of("b0", "b1"), source.texts(1, 3));
        }
    }

    /** They count as unread, so that the job could not leave the topic while the other partition has messages. */
    @Test
    void theMarksOfTransactionsInAPartitionArePassedWhileAnotherOneHasMessages() throws Exception {
        addPartition("a0");
        addPartition("b0");
        marks = 1;
        try (Source source = opened(true, 0, 0)) {
            source.awaitEnd(2);
            assertEquals(2, source.take(2).size());
            source.close(0, 2, 1);
            logs.get(0).add("a1");
            source.awaitEnd(3);
            assertEquals(1, source.take(1).size());
            source.commit(2);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            while (committed().get(1) < 2 && System.nanoTime() < deadline) {
                Thread.sleep(10);
            }
            assertEquals(Map.of(0, 1L, 1, 2L), committed());
        }
    }

    private Map<Integer, Long> committed() {
        return commits.entrySet().stream().collect(
                Collectors.toMap(each -> each.getKey().partition(), each -> each.getValue().offset()));
    }

    /** A reader of the topic. */
    private final class Source extends BatchSource {
        Source(boolean streaming) {
            super(journal, streaming);
        }

        @Override
        TopicWatch.Topic topic() {
            return new TopicWatch.Topic("id", logs.size());
        }

        @Override
        MockConsumer<byte[], byte[]> consumer() {
            return new Broker();
        }
    }

    /** A consumer of the logs, each from wherever it is sought to. */
    private final class Broker extends MockConsumer<byte[], byte[]> {
        Broker() {
            super("none");
        }

        @Override
        public synchronized ConsumerRecords<byte[], byte[]> poll(Duration time) {
            for (TopicPartition each : assignment()) {
                List<String> log = logs.get(each.partition());
                for (int offset = (int) position(each); !paused().contains(each) && offset < log.size(); offset++) {
                    addRecord(new ConsumerRecord<>("in", each.partition(), offset, null, log.get(offset).getBytes(UTF_8)));
                }
            }
            Thread.yield();
            return super.poll(time);
        }

        @Override
        public synchronized long position(TopicPartition partition) {
            long position = super.position(partition);
            boolean end = partition.partition() == 1 && position == logs.get(1).size();
            return end ? position + marks : position;
        }

        @Override
        public synchronized Map<TopicPartition, Long> beginningOffsets(Collection<TopicPartition> partitions) {
            return partitions.stream().collect(Collectors.toMap(each -> each, each -> 0L));
        }

        @Override
        public synchronized Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> partitions) {
            return partitions.stream().collect(
                    Collectors.toMap(each -> each, each -> (long) logs.get(each.partition()).size()));
        }

        @Override
        public synchronized Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions) {
            return commits;
        }

        @Override
        public void commitAsync(Map<TopicPartition, OffsetAndMetadata> offsets,
                OffsetCommitCallback callback) {
            commits = Map.copyOf(offsets);
            callback.onComplete(offsets, null);
        }

        @Override
        public void commitSync(Map<TopicPartition, OffsetAndMetadata> offsets, Duration timeout) {
            commits = Map.copyOf(offsets);
        }
    }
}
