package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;

/** The sink over Kafka's {@code MockProducer}, whose acknowledgements each test completes itself. */
class KafkaSinkTest {
    private static final Duration LONG = Duration.ofMinutes(2);
    private static final Duration SHORT = Duration.ofMillis(5);

    private final MockProducer<byte[], byte[]> producer = producer(1);

    private static MockProducer<byte[], byte[]> producer(int partitions) {
        List<PartitionInfo> parts = IntStream.range(0, partitions)
                .mapToObj(each -> new PartitionInfo("out", each, null, null, null)).toList();
        return new MockProducer<>(new Cluster("id", List.of(), parts, Set.of(), Set.of()), false,
                null, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaSink sink(Duration flushTimeout, boolean lenient) {
        return sink(flushTimeout, lenient, producer);
    }

    private static KafkaSink sink(Duration flushTimeout, boolean lenient, MockProducer<byte[], byte[]> producer) {
        SinkSettings settings = new SinkSettings(Login.anonymous("kafka://127.0.0.1:9092"), flushTimeout);
        return new KafkaSink(settings, lenient, new Producers.Shared(settings, producer));
    }

    private static void send(KafkaSink sink, int messages) throws InterruptedException {
        byte[] text = bytes("text");
        for (int i = 0; i < messages; i++) {
            sink.send("out", text, null, text, text);
        }
    }

    private void acknowledge(int messages) {
        for (int i = 0; i < messages; i++) {
            assertTrue(producer.completeNext());
        }
    }

    @Test
    void aFlushWithoutAllAcknowledgementsFailsWithTheirNumber() throws InterruptedException {
        KafkaSink sink = sink(SHORT, false);
        send(sink, 3);
        acknowledge(1);
        BrokerException found = assertThrows(BrokerException.class, sink::flush);
        assertTrue(found.getMessage().contains("did not acknowledge 2 messages"), found.getMessage());
        acknowledge(2);
        sink.flush();
    }

    @Test
    void anAcknowledgementIsTimedWhateverCameOfTheOneBefore() throws InterruptedException {
        KafkaSink sink = sink(LONG, true);
        assertEquals(-1, sink.acks().medianMillis());
        send(sink, 3);
        assertEquals(-1, sink.acks().medianMillis());
        producer.errorNext(new RecordTooLargeException("no"));
        acknowledge(2); // were under way beside one that was timed
        assertEquals(-1, sink.acks().medianMillis());
        send(sink, 1);
        Thread.sleep(20);
        acknowledge(1);
        assertTrue(sink.acks().leastMillis() >= 20, sink.acks().toString());
    }

    @Test
    void aMessageThatTheProducerDoesNotTakeIsNoTimedOne() throws InterruptedException {
        KafkaSink sink = sink(LONG, false);
        producer.sendException = new KafkaException("no");
        assertThrows(BrokerException.class, () -> send(sink, 1));
        producer.sendException = null;
        send(sink, 1);
        acknowledge(1);
        assertTrue(sink.acks().leastMillis() >= 0, sink.acks().toString());
    }

    @Test
    void aFlushThatWaitsEndsWithTheLastAcknowledgement() throws InterruptedException {
        KafkaSink sink = sink(LONG, false);
        for (int round = 0; round < 200; round++) {
            send(sink, 2);
            Thread broker = new Thread(() -> acknowledge(2));
            broker.start();
            sink.flush();
            assertFalse(producer.completeNext());
            broker.join();
        }
        assertEquals(400, producer.history().size());
    }

    @Test
    void aFailureEndsAFlushAndEverySendAfterIt() throws InterruptedException {
        KafkaSink sink = sink(LONG, false);
        send(sink, 2);
        producer.errorNext(new TimeoutException("no answer"));
        BrokerException found = assertThrows(BrokerException.class, sink::flush);
        assertTrue(found.getMessage().endsWith("topic 'out': no answer"), found.getMessage());
        assertThrows(BrokerException.class, () -> send(sink, 1));
    }

    /** Else a batch of the producer would be in one partition, and the next in another. */
    @Test
    void messagesWithoutKeysAreInOnePartitionOfTheirJobAndOthersByTheirKeys() throws InterruptedException {
        MockProducer<byte[], byte[]> several = producer(4);
        KafkaSink sink = sink(LONG, false, several);
        Set<Integer> ofJobs = new HashSet<>();
        for (String job : List.of("a", "b", "c", "d", "e")) {
            several.clear();
            for (int i = 0; i < 10; i++) {
                sink.send("out", bytes("text" + i), null, bytes(job), bytes("r/0/0/" + i));
            }
            Set<Integer> found = several.history().stream().map(ProducerRecord::partition).collect(Collectors.toSet());
            assertEquals(1, found.size(), () -> job + ": " + found);
            ofJobs.addAll(found);
        }
        assertTrue(ofJobs.size() > 1, ofJobs::toString);
        several.clear();
        sink.send("out", bytes("text"), bytes("key"), bytes("a"), bytes("r/0/0/1"));
        sink.send("out", bytes("text"), null, Map.of());
        several.history().forEach(each -> assertNull(each.partition()));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void connections(MockProducer<byte[], byte[]> of, double number) {
        MetricName name = new MetricName("connection-count", "producer-metrics", "", Map.of());
        of.setMockMetrics(name, new Metric() {
            @Override
            public MetricName metricName() {
                return name;
            }

            @Override
            public Object metricValue() {
                return number;
            }
        });
    }

    /** A task that waited for the broker would hold its slot. */
    @Test
    void aBrokerThatIsAwayGivesBackWhatItHasNotAcknowledgedInOrder() throws InterruptedException {
        SinkSettings settings = new SinkSettings(Login.anonymous("kafka://127.0.0.1:9092"), LONG);
        MockProducer<byte[], byte[]> other = producer(1);
        Iterator<MockProducer<byte[], byte[]>> all = List.of(producer, other).iterator();
        OfferingSink sink = new OfferingSink(settings, false, () -> new Producers.Shared(settings, all.next()));
        connections(producer, 1);
        for (int i = 0; i < 4; i++) {
            assertEquals(5, sink.offer("out", bytes("t" + i), null, bytes("job"), bytes("r/0/0/" + i)));
        }
        acknowledge(2);
        connections(producer, 0);
        List<UnsentMessage> back = sink.flushUnlessAway();
        assertEquals(List.of("t2 r/0/0/2", "t3 r/0/0/3"), back.stream().map(KafkaSinkTest::shown).toList());
        assertTrue(producer.closed());
        connections(other, 1);
        assertEquals(5, sink.offer("out", bytes("t4"), null, bytes("job"), bytes("r/0/0/4")));
        assertTrue(other.completeNext());
        assertEquals(List.of(), sink.flushUnlessAway());
        sink.close();
        assertFalse(other.closed());
    }

    private static String shown(UnsentMessage message) {
        return new String(message.payload(), StandardCharsets.UTF_8) + " "
                + new String(message.sequence(), StandardCharsets.UTF_8);
    }

    @Test
    void aWriterThatOffersDoesNotWaitForABrokerWhichCannotBeReached() throws InterruptedException {
        SinkSettings settings = new SinkSettings(Login.anonymous("kafka://127.0.0.1:1"), LONG);
        long begin = System.nanoTime();
        try (OfferingSink sink = new OfferingSink(settings, false)) {
            assertEquals(-1, sink.offer("out", bytes("with a key"), bytes("key"), bytes("job"), bytes("r/0/0/1")));
            assertEquals(-1, sink.offer("out", bytes("without"), null, bytes("job"), bytes("r/0/0/2")));
            assertEquals(List.of(), sink.flushUnlessAway());
        }
        assertTrue(System.nanoTime() - begin < LONG.toNanos() / 2);
    }

    @Test
    void aWriterThatOffersFailsWithAMessageThatIsRefused() throws InterruptedException {
        SinkSettings settings = new SinkSettings(Login.anonymous("kafka://127.0.0.1:9092"), LONG);
        OfferingSink sink = new OfferingSink(settings, false, () -> new Producers.Shared(settings, producer));
        sink.offer("out", bytes("text"), null, null, null);
        producer.errorNext(new RecordTooLargeException("too large"));
        assertTrue(assertThrows(BrokerException.class, sink::flushUnlessAway).refused());
        sink.close();
        assertFalse(producer.closed()); // it may write others
    }

    @Test
    void aMessageThatIsTooLargeIsRefusedAndTheOthersAreWritten() throws InterruptedException {
        KafkaSink sink = sink(LONG, true);
        send(sink, 2);
        producer.errorNext(new RecordTooLargeException("too large"));
        acknowledge(1);
        sink.flush();
        assertTrue(sink.hasRefused());
        assertEquals(1, sink.takeRefused().size());
        assertFalse(sink.hasRefused());
    }
}
