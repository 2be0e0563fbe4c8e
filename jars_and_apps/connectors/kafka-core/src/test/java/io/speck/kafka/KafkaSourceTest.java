package io.speck.kafka;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Losses;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** A reader whose topic is deleted and made again while it reads, over Kafka's {@code MockConsumer}. */
class KafkaSourceTest {
    private static final TopicPartition IN = new TopicPartition("in", 0);

    private final BatchJournal journal = Recorded.journal(Map.of());
    private final List<String> log = new CopyOnWriteArrayList<>();
    private volatile String topicId = "first";

    private void send(String prefix, int messages) {
        for (int number = 0; number < messages; number++) {
            log.add(prefix + number);
        }
    }

    /** Deletes the topic, and makes it with other messages, of which there are fewer. */
    private void makeAnew() {
        topicId = "second";
        synchronized (log) {
            log.clear();
            send("new", 5);
        }
    }

    private Source opened(long start, long end) throws IOException, InterruptedException {
        Source source = new Source();
        source.openWhole(start, end);
        return source;
    }

    @Test
    void aRestartContinuesInTheNewTopic() throws IOException, InterruptedException {
        send("old", 10);
        try (Source source = opened(0, 0)) {
            source.batch(0, 10);
            source.commit(10);
            makeAnew();
            source.batch(10, 15);
            source.commit(15);
            assertEquals(1, source.metrics().lostSessions());
        }
        send("next", 1);
        try (Source source = opened(15, 15)) {
            assertEquals(List.of("next0"), source.batch(15, 16));
            assertEquals(0, source.metrics().lostSessions());
        }
    }

    @Test
    void aBatchOfTheNewTopicIsRunAgain() throws IOException, InterruptedException {
        send("old", 10);
        try (Source source = opened(0, 0)) {
            source.batch(0, 10);
            source.commit(10);
            makeAnew();
            source.batch(10, 15);
        }
        send("next", 1);
        try (Source source = opened(10, 15)) {
            assertEquals(List.of("new0", "new1", "new2", "new3", "new4"), source.texts(10, 15));
            assertEquals(List.of("next0"), source.batch(15, 16));
            assertEquals(Map.of(), source.metrics().lostMessages());
        }
    }

    @Test
    void aBatchOfBothTopicsIsRunAgainWithoutTheMessagesThatAreGone() throws IOException, InterruptedException {
        send("old", 10);
        try (Source source = opened(0, 0)) {
            source.batch(0, 10);
            source.commit(10);
            send("late", 3);
            source.awaitEnd(13);
            makeAnew();
            assertEquals(8, source.batch(10, 18).size());
        }
        send("next", 1);
        try (Source source = opened(10, 18)) {
            assertEquals(List.of("new0", "new1", "new2", "new3", "new4"), source.texts(10, 18));
            assertEquals(List.of("next0"), source.batch(18, 19));
            assertEquals(Map.of(Losses.BATCH, 3L), source.metrics().lostMessages());
        }
    }

    @Test
    void aBatchOfTheFormerTopicIsReportedAndEndsNothing() throws IOException, InterruptedException {
        send("old", 10);
        try (Source source = opened(0, 0)) {
            source.batch(0, 10);
        }
        makeAnew();
        try (Source source = opened(0, 10)) {
            assertEquals(List.of(), source.texts(0, 10));
            assertEquals(List.of("new0", "new1", "new2", "new3", "new4"), source.batch(10, 15));
            assertEquals(Map.of(Losses.BATCH, 10L, Losses.SESSION, 0L), source.metrics().lostMessages());
        }
    }

    /** A reader of the topic. */
    private final class Source extends BatchSource {
        Source() {
            super(journal, false);
        }

        @Override
        TopicWatch.Topic topic() {
            return new TopicWatch.Topic(topicId, 1);
        }

        @Override
        MockConsumer<byte[], byte[]> consumer() {
            return new Broker();
        }
    }

    /** A consumer of the log, from wherever it is sought to. */
    private final class Broker extends MockConsumer<byte[], byte[]> {
        Broker() {
            super("none");
            updatePartitions("in", List.of(new PartitionInfo("in", 0, null, null, null)));
        }

        @Override
        public synchronized ConsumerRecords<byte[], byte[]> poll(Duration time) {
            List<String> present;
            synchronized (log) {
                present = new ArrayList<>(log);
            }
            long position = position(IN);
            if (position > present.size()) {
                throw new OffsetOutOfRangeException(Map.of(IN, position));
            }
            if (!paused().contains(IN)) {
                for (int offset = (int) position; offset < present.size(); offset++) {
                    addRecord(new ConsumerRecord<>("in", 0, offset, null, present.get(offset).getBytes(UTF_8)));
                }
            }
            Thread.yield();
            return super.poll(time);
        }

        @Override
        public synchronized Map<TopicPartition, Long> beginningOffsets(Collection<TopicPartition> partitions) {
            return partitions.stream().collect(Collectors.toMap(each -> each, each -> 0L));
        }

        @Override
        public synchronized Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> partitions) {
            return partitions.stream().collect(Collectors.toMap(each -> each, each -> (long) log.size()));
        }

        @Override
        public synchronized Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions) {
            return Map.of(IN, new OffsetAndMetadata(0));
        }
    }
}
