package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.reader.Message;
import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.Topic;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Reads from a real Mosquitto whose connections are cut. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MqttSourceTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    @TempDir
    Path folder;
    private Mosquitto broker;
    private CuttingProxy proxy;
    private final MemoryJournal journal = new MemoryJournal();
    private final List<AutoCloseable> opened = new ArrayList<>();

    @BeforeEach
    void start() throws IOException {
        broker = Mosquitto.start(folder);
        proxy = new CuttingProxy(broker.port());
    }

    @AfterEach
    void stop() throws Exception {
        for (AutoCloseable each : opened) {
            each.close();
        }
        proxy.close();
        broker.close();
    }

    private SourceSettings settings() {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 32 << 20, null, -1, true,
                Duration.ofSeconds(20));
    }

    private MqttSource open(long committed, long end) throws Exception {
        return open(settings(), committed, end);
    }

    private MqttSource open(SourceSettings settings, long committed, long end) throws Exception {
        MqttSource source = new MqttSource(settings, journal);
        opened.add(source);
        source.open(committed, end);
        return source;
    }

    private void publish(String... payloads) throws InterruptedException {
        publish(null, 0, payloads);
    }

    private void publish(String job, int first, String... payloads) throws InterruptedException {
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), Duration.ofSeconds(20)))) {
            int index = first;
            for (String payload : payloads) {
                String sequence = Stamp.prefix("run", 0, 0) + index++;
                sink.send("in/a", bytes(payload), null, job == null ? null : bytes(job),
                        job == null ? null : bytes(sequence));
            }
            sink.flush();
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String[] numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toArray(String[]::new);
    }

    /** Checks that the broker holds no message: a marker sent now is the first message of a new reader. */
    private void assertNothingLeft(long offset) throws Exception {
        publish("marker");
        try (MqttSource next = new MqttSource(settings(), new MemoryJournal())) {
            next.open(offset, offset);
            Await.until("marker", () -> next.await(offset + 1, SECOND) > offset);
            assertEquals(List.of("marker"), Topic.texts(next.messages(offset, offset + 1)));
        }
    }

    /** Waits until the broker is known to have all acknowledgements: only the last record remains then. */
    private void awaitCertain(MqttSource source, long offset) {
        Await.until("the broker has the acknowledgements up to " + offset, () -> {
            source.commit(offset);
            return journal.records.size() == 1;
        });
    }

    @Test
    void messagesComeInOrderUnderIncreasingOffsets() throws Exception {
        MqttSource source = open(0, 0);
        publish(numbers(0, 1000));
        assertEquals(List.of(numbers(0, 600)), Batch.next(source, 0, 600));
        source.commit(600);
        assertEquals(List.of(numbers(600, 1000)), Batch.next(source, 600, 1000));
        source.commit(1000);
        source.close();
        assertNothingLeft(1000);
    }

    @Test
    void unacknowledgedMessagesAreNotReturnedAgainAfterACut() throws Exception {
        MqttSource source = open(0, 0);
        publish("same", "same", "a", "b");
        assertEquals(List.of("same", "same"), Batch.next(source, 0, 2));
        proxy.cut();
        publish("same", "c");
        Await.until("reconnected", () -> source.metrics().reconnections() == 1);
        source.commit(2);
        assertEquals(List.of("a", "b", "same", "c"), Batch.next(source, 2, 6));
        source.commit(6);
        assertEquals(6, source.metrics().received());
        source.close();
        assertNothingLeft(6);
    }

    @Test
    void aCommitWhileTheConnectionIsAwayReachesTheBrokerLater() throws Exception {
        MqttSource source = open(0, 0);
        publish("a", "a", "b");
        Batch.next(source, 0, 3);
        proxy.refuse(true);
        proxy.cut();
        Await.until("noticed", () -> !source.metrics().connected());
        source.commit(3);
        proxy.refuse(false);
        publish("a");
        assertEquals(List.of("a"), Batch.next(source, 3, 4));
        assertEquals(3, source.metrics().redelivered());
        source.commit(4);
        source.close();
        assertNothingLeft(4);
    }

    @Test
    void manyCutsLoseAndRepeatNothing() throws Exception {
        MqttSource source = open(0, 0);
        List<String> seen = new ArrayList<>();
        for (int round = 0; round < 5; round++) {
            publish(numbers(200 * round, 200 * (round + 1)));
            if (round % 2 == 0) {
                proxy.cut();
            }
            for (long start = 200L * round; start < 200L * (round + 1); start += 50) {
                seen.addAll(Batch.next(source, start, start + 50));
                source.commit(start + 50);
            }
        }
        assertEquals(List.of(numbers(0, 1000)), seen);
        awaitCertain(source, 1000);
        source.close();
        assertNothingLeft(1000);
    }

    @Test
    void anUncommittedBatchComesAgainAfterARestart() throws Exception {
        MqttSource first = open(0, 0);
        publish("x", "x", "y", "x", "z");
        assertEquals(List.of("x", "x"), Batch.next(first, 0, 2));
        first.commit(2);
        List<String> batch = Batch.next(first, 2, 4);
        crash();
        publish("x");
        MqttSource second = open(2, 4);
        second.awaitWhole();
        assertEquals(batch, Topic.texts(second.messages(2, 4)));
        assertEquals(1, second.recordedPartitions(2));
        second.commit(4);
        assertEquals(List.of("z", "x"), Batch.next(second, 4, 6));
        second.commit(6);
        second.close();
        assertNothingLeft(6);
    }

    /** Cuts connections without DISCONNECT, as a kill would. */
    private void crash() throws IOException {
        proxy.refuse(true);
        proxy.cut();
        opened.forEach(each -> {
            try {
                each.close();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        proxy.refuse(false);
        proxy.swallow(false);
        proxy.swallowAfter(Long.MAX_VALUE);
    }

    @Test
    void lostAcknowledgementsOfACommittedBatchAreSentAgain() throws Exception {
        MqttSource first = open(0, 0);
        publish("x", "x", "y");
        Batch.next(first, 0, 3);
        proxy.swallow(true);
        first.commit(3);
        crash();
        publish("x", "x", "y");
        MqttSource second = open(3, 3);
        assertEquals(List.of("x", "x", "y"), Batch.next(second, 3, 6));
        assertEquals(3, second.metrics().redelivered());
        second.commit(6);
        second.close();
        assertNothingLeft(6);
    }

    @Test
    void aBatchAcknowledgedInPartIsCompleted() throws Exception {
        MqttSource first = open(receiving(5), 0, 0);
        publish("x", "x", "x", "x", "x", "x", "x");
        Batch.next(first, 0, 5);
        proxy.swallowAfter(2 * 4);
        first.commit(5);
        Await.until("two more, for two acknowledgements", () -> first.await(7, SECOND) == 7);
        crash();
        MqttSource second = open(5, 5);
        assertEquals(List.of("x", "x"), Batch.next(second, 5, 7));
        assertEquals(3, second.metrics().redelivered());
        second.commit(7);
        second.close();
        assertNothingLeft(7);
    }

    @Test
    void cutsWhileTheBrokerRepeatsLoseAndRepeatNothing() throws Exception {
        MqttSource first = open(0, 0);
        String[] alike = IntStream.range(0, 300).mapToObj(i -> "v" + i % 3).toArray(String[]::new);
        publish(alike);
        Batch.next(first, 0, 100);
        proxy.swallow(true);
        first.commit(100);
        List<String> batch = Batch.next(first, 100, 200);
        crash();
        proxy.cutAfter(100L, 900L, 1500L, 2000L);
        MqttSource second = open(100, 200);
        second.awaitWhole();
        assertEquals(batch, Topic.texts(second.messages(100, 200)));
        second.commit(200);
        assertEquals(List.of(alike).subList(200, 300), Batch.next(second, 200, 300));
        awaitCertain(second, 300);
        assertEquals(300, second.metrics().received());
        second.close();
        assertNothingLeft(300);
    }

    @Test
    void messagesSentToTheCreatorOfTheSessionAreNew() throws Exception {
        AtomicInteger seen = new AtomicInteger();
        Connection maker = Connection.open(Login.anonymous(broker.url()), Session.persistent("reader", 65535),
                new ConnectionListener() {
                    @Override
                    public void published(Connection connection, MqttPublishMessage message) {
                        seen.incrementAndGet();
                    }
                }, Duration.ofSeconds(5));
        maker.subscribe(List.of("in/#"), Duration.ofSeconds(5));
        publish("a", "a", "b");
        Await.until("all are under way", () -> seen.get() == 3);
        maker.close(false);
        publish("a");
        MqttSource source = open(0, 0);
        assertEquals(List.of("a", "a", "b", "a"), Batch.next(source, 0, 4));
        assertEquals(0, source.metrics().redelivered());
        source.commit(4);
        source.close();
        assertNothingLeft(4);
    }

    @Test
    void recordsDoNotPileUpOverRestarts() throws Exception {
        for (int round = 0; round < 4; round++) {
            MqttSource source = open(round, round);
            publish("x");
            Batch.next(source, round, round + 1);
            source.commit(round + 1);
            crash();
            opened.clear();
        }
        assertTrue(journal.records.size() <= 3, "records: " + journal.records.keySet());
    }

    @Test
    void aBatchThatNeverReachedTheEngineIsDropped() throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b", "c");
        Batch.next(first, 0, 2);
        crash();
        MqttSource second = open(0, 0);
        assertEquals(List.of("a", "b", "c"), Batch.next(second, 0, 3));
    }

    @Test
    void stampedDuplicatesAreDroppedAlsoAfterARestart() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 0, "a", "a", "b");
        publish("job", 1, "a", "b", "c");
        assertEquals(List.of("a", "a", "b", "c"), Batch.next(first, 0, 4));
        first.commit(4);
        first.close();
        MqttSource second = open(4, 4);
        publish("job", 2, "b", "c", "d");
        assertEquals(List.of("d"), Batch.next(second, 4, 5));
        assertEquals(2, second.metrics().duplicatesDropped());
        second.commit(5);
        second.close();
        assertNothingLeft(5);
    }

    @Test
    void stampsOutOfOrderAreNotDropped() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 10, "k", "l");
        assertEquals(List.of("k", "l"), Batch.next(first, 0, 2));
        first.commit(2);
        first.close();
        MqttSource second = open(2, 2);
        publish("job", 8, "i", "j", "k", "l", "m");
        assertEquals(List.of("i", "j", "m"), Batch.next(second, 2, 5));
        assertEquals(Map.of("job/run", 2L), second.metrics().duplicatesByRun());
        assertEquals("job/run=2", second.metrics().runsText());
    }

    @Test
    void anotherContentUnderACountedStampIsReturnedAndCounted() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 0, "a", "b");
        assertEquals(List.of("a", "b"), Batch.next(first, 0, 2));
        first.commit(2);
        first.close();
        MqttSource second = open(2, 2);
        publish("job", 0, "a", "other", "c");
        assertEquals(List.of("other", "c"), Batch.next(second, 2, 4));
        assertEquals(1, second.metrics().collisions());
        assertEquals(1, second.metrics().duplicatesDropped());
        assertEquals(0, second.metrics().changedRepetitions());
    }

    /** Else the outputs of both would have one stamp at the next job, which would drop one as another form. */
    @Test
    void nothingIsNamedAfterAStampThatTwoMessagesHave() throws Exception {
        MqttSource first = open(0, 0);
        stamped("job", "r/0/0/5", "a");
        stamped("job", "r/0/0/5", "other");
        stamped("job", "r/0/0/6", "b");
        assertEquals(List.of("a", "other", "b"), Batch.next(first, 0, 3));
        List<Stamp> stamps = Arrays.asList(new Stamp("job", "r", 0, 0, 5), null, new Stamp("job", "r", 0, 0, 6));
        assertEquals(stamps, first.messages(0, 3).stream().map(Message::stamp).toList());
        first.close();
        MqttSource second = open(0, 3);
        second.awaitWhole();
        assertEquals(stamps, second.messages(0, 3).stream().map(Message::stamp).toList());
    }

    @Test
    void anotherContentUnderADerivedStampIsTheSameOutput() throws Exception {
        MqttSource source = open(0, 0);
        stamped("job", "r/0/0/5.0", "a");
        stamped("job", "r/0/0/5.0", "in another form");
        stamped("job", "r/0/0/5.1", "b");
        assertEquals(List.of("a", "b"), Batch.next(source, 0, 2));
        assertEquals(1, source.metrics().changedRepetitions());
        assertEquals(0, source.metrics().duplicatesDropped());
        assertEquals("r/0/0/5.1", source.messages(1, 2).get(0).stamp().sequence());
    }

    private void stamped(String job, String sequence, String payload) throws InterruptedException {
        Topic.publishStamped(broker.url(), "in/a", job, sequence, payload);
    }

    @Test
    void anUncommittedBatchHasItsStampsAgainAfterARestart() throws Exception {
        MqttSource first = open(0, 0);
        stamped("job", "r/0/0/5.0", "a");
        publish("b");
        Batch.next(first, 0, 2);
        crash();
        MqttSource second = open(0, 2);
        second.awaitWhole();
        assertEquals("r/0/0/5.0", second.messages(0, 2).get(0).stamp().sequence());
        assertEquals(null, second.messages(0, 2).get(1).stamp());
    }

    private void loseSession() throws InterruptedException {
        Connection.open(Login.anonymous(broker.url()), Session.temporary("reader"), new ConnectionListener() {},
                Duration.ofSeconds(5)).close(true);
    }

    private SourceSettings lenient() {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 1 << 20, null, -1, false,
                Duration.ofSeconds(20));
    }

    @Test
    void aLostSessionIsAnError() throws Exception {
        MqttSource first = open(0, 0);
        publish("a");
        Batch.next(first, 0, 1);
        crash();
        loseSession();
        DataLossException lost = assertThrows(DataLossException.class, () -> open(0, 1));
        assertTrue(lost.getMessage().contains("reader") && lost.getMessage().contains(proxy.url()), lost.getMessage());
    }

    @Test
    void aLostSessionIsToleratedIfConfigured() throws Exception {
        MqttSource first = open(0, 0);
        publish("a");
        Batch.next(first, 0, 1);
        crash();
        loseSession();
        MqttSource second = open(lenient(), 0, 1);
        second.awaitWhole();
        assertEquals(List.of(), Topic.texts(second.messages(0, 1)));
        second.commit(1);
        publish("b");
        assertEquals(List.of("b"), Batch.next(second, 1, 2));
    }

    @Test
    void recordsDoNotPileUpWhenASessionIsLostWithUnacknowledgedMessages() throws Exception {
        MqttSource source = open(lenient(), 0, 0);
        publish("a", "b");
        Batch.next(source, 0, 1);
        proxy.refuse(true);
        proxy.cut();
        Await.until("noticed", () -> !source.metrics().connected());
        loseSession();
        proxy.refuse(false);
        Await.until("reconnected", () -> source.metrics().reconnections() == 1);
        source.commit(1);
        publish("c", "d");
        assertEquals(List.of("b", "c"), Batch.next(source, 1, 3));
        source.commit(3);
        assertEquals(List.of("d"), Batch.next(source, 3, 4));
        awaitCertain(source, 4);
    }

    private SourceSettings elsewhere(String broker) {
        return elsewhere(Login.anonymous(broker));
    }

    private SourceSettings elsewhere(Login login) {
        return new SourceSettings(login, "other", "elsewhere", 65535, 1 << 20, null, -1, false,
                Duration.ofSeconds(20));
    }

    @Test
    void anUncommittedBatchOfAnotherSessionIsCompletedThere() throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b", "c");
        Batch.next(first, 0, 2);
        crash();
        MqttSource second = open(elsewhere(proxy.url()), 0, 2);
        Topic.publish(broker.url(), "elsewhere", List.of("d"));
        second.awaitWhole();
        assertEquals(List.of("a", "b"), Topic.texts(second.messages(0, 2)));
        second.commit(2);
        assertEquals(List.of("d"), Batch.next(second, 2, 3));
        assertEquals(Map.of(), second.metrics().lostMessages());
        second.close();
        MqttSource left = open(2, 2); // what had not been in the batch is still there, and nothing else
        assertEquals(List.of("c"), Batch.next(left, 2, 3));
    }

    @Test
    void anUncommittedBatchAtAnotherBrokerIsCompletedThereWithoutTheLoginOfThePresentOne(@TempDir Path other)
            throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b");
        Batch.next(first, 0, 2);
        crash();
        try (Mosquitto second = Mosquitto.start(other)) {
            Login login = new Login(BrokerAddress.parse(second.url()), "user", null, TlsFiles.NONE);
            MqttSource source = open(elsewhere(login), 0, 2);
            source.awaitWhole();
            assertEquals(List.of("a", "b"), Topic.texts(source.messages(0, 2)));
            source.commit(2);
            source.close();
        }
        assertNothingLeft(2);
    }

    @Test
    void anUncommittedBatchOfASessionThatIsGoneLeavesItsOffsetsUnused() throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b");
        Batch.next(first, 0, 2);
        crash();
        loseSession();
        MqttSource second = open(elsewhere(proxy.url()), 0, 2);
        second.awaitWhole();
        assertEquals(List.of(), second.messages(0, 2));
        assertEquals(Map.of("batchGivenUp", 2L), second.metrics().lostMessages());
        Topic.publish(broker.url(), "elsewhere", List.of("c", "d"));
        second.commit(2);
        assertEquals(List.of("c", "d"), Batch.next(second, 2, 4));
    }

    @Test
    void aStallAmidTheRedeliveryLosesNothing() throws Exception {
        MqttSource first = open(0, 0);
        publish(numbers(0, 300));
        List<String> batch = Batch.next(first, 0, 300);
        crash();
        proxy.stallAfter(3000L);
        SourceSettings hasty = new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 32 << 20, null,
                -1, false, Duration.ofSeconds(1));
        MqttSource second = open(hasty, 0, 300);
        Thread resuming = new Thread(() -> {
            try {
                TimeUnit.SECONDS.sleep(4); // longer than the time-out
                proxy.resume();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        resuming.start();
        second.awaitWhole();
        assertEquals(batch, Topic.texts(second.messages(0, 300)));
        assertEquals(Map.of(), second.metrics().lostMessages());
        resuming.join();
    }

    @Test
    void whatABatchThatWasGivenUpHeldIsReturnedWhenItComesAgain() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 0, "a", "b", "c");
        Batch.next(first, 0, 1);
        first.commit(1);
        Batch.next(first, 1, 3);
        crash();
        loseSession();
        SourceSettings other = new SourceSettings(Login.anonymous(proxy.url()), "other", "in/#", 65535, 1 << 20, null,
                -1, false, Duration.ofSeconds(20));
        MqttSource second = open(other, 1, 3);
        publish("job", 0, "a", "b", "c", "d");
        assertEquals(List.of("b", "c", "d"), Batch.next(second, 3, 6));
    }

    @Test
    void theBrokerMayRestart() throws Exception {
        MqttSource source = open(0, 0);
        publish("a", "b", "c");
        Batch.next(source, 0, 2);
        source.commit(2);
        broker.stop();
        Await.until("noticed", () -> !source.metrics().connected());
        broker.start();
        publish("d");
        assertEquals(List.of("c", "d"), Batch.next(source, 2, 4));
        source.commit(4);
        source.close();
        assertNothingLeft(4);
    }

    @Test
    void theFenceEndsAnOlderAttempt() throws Exception {
        MqttSource older = open(fenced(1), 0, 0);
        fence(2);
        MqttSource newer = open(fenced(2), 0, 0);
        TakenOverException end = assertThrows(TakenOverException.class, () -> {
            while (true) {
                older.await(1, SECOND);
            }
        });
        assertTrue(end.getMessage().contains("attempt 2"), end.getMessage());
        publish("a");
        assertEquals(List.of("a"), Batch.next(newer, 0, 1));
        assertThrows(TakenOverException.class, () -> open(fenced(1), 0, 0));
    }

    private SourceSettings fenced(long attempt) {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 32 << 20, "fence/reader",
                attempt, true, Duration.ofSeconds(20));
    }

    private void fence(int attempt) throws Exception {
        Topic.retain(broker.url(), "fence/reader", "{\"attempt\": " + attempt + "}");
    }

    @Test
    void twoCopiesWithoutAFenceDoNotFightForEver() throws Exception {
        MqttSource one = open(0, 0);
        MqttSource other = open(new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 32 << 20,
                null, -1, true, Duration.ofSeconds(20)), 0, 0);
        List<MqttSource> ended = new ArrayList<>();
        Await.until("one ends", () -> {
            for (MqttSource each : List.of(one, other)) {
                try {
                    each.await(1, SECOND / 20);
                } catch (TakenOverException e) {
                    ended.add(each);
                }
            }
            return !ended.isEmpty();
        });
        MqttSource survivor = ended.contains(one) ? other : one;
        publish("a");
        assertEquals(List.of("a"), Batch.next(survivor, 0, 1));
    }

    private SourceSettings receiving(int maximum) {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", maximum, 32 << 20, null, -1, true,
                Duration.ofSeconds(20));
    }

    @Test
    void theReceiveMaximumHoldsTheBrokerBack() throws Exception {
        MqttSource source = open(receiving(10), 0, 0);
        publish(numbers(0, 25));
        assertEquals(10, source.await(25, SECOND));
        Batch.next(source, 0, 10);
        source.commit(10);
        assertEquals(List.of(numbers(10, 20)), Batch.next(source, 10, 20));
    }

    @Test
    void aHundredThousandMessagesPassThroughASmallBuffer() throws Exception {
        SourceSettings small = new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 1 << 20,
                null, -1, true, Duration.ofSeconds(20));
        MqttSource source = open(small, 0, 0);
        publish(numbers(0, 100_000));
        assertTrue(source.metrics().queued() < 100_000, "reading pauses");
        long start = 0;
        while (start < 100_000) {
            long end = source.await(start + 1, SECOND);
            source.close(start, end, 1);
            List<String> texts = Topic.texts(source.messages(start, end));
            for (int i = 0; i < texts.size(); i++) {
                assertEquals(Long.toString(start + i), texts.get(i));
            }
            source.commit(end);
            start = end;
        }
        awaitCertain(source, 100_000);
    }

    @Test
    void aBrokerOutOfReachIsNamed() {
        SourceSettings nowhere = new SourceSettings(Login.anonymous("tcp://127.0.0.1:1"), "reader", "in", 10, 1 << 20,
                null, -1, true, Duration.ofMillis(300));
        BrokerException fault = assertThrows(BrokerException.class, () -> open(nowhere, 0, 0));
        assertTrue(fault.getMessage().contains("tcp://127.0.0.1:1"), fault.getMessage());
    }
}
