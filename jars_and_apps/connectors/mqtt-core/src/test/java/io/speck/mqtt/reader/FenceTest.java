package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.reader.FenceText;
import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.Topic;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The readers of a session at a real Mosquitto: attempts, processes of one attempt, and nobody after its deletion. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FenceTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final String FENCE = "speck/fence/reader";
    private static final String NOTE = "speck/session/reader";
    private static final String OWNED = "{\"attempt\": 4, \"owner\": \"0a1b\"}";

    @TempDir
    Path folder;
    private Mosquitto broker;
    private CuttingProxy proxy;
    private final List<MqttSource> opened = Collections.synchronizedList(new ArrayList<>());

    @BeforeEach
    void start() throws Exception {
        broker = Mosquitto.start(folder, "autosave_interval 0");
        proxy = new CuttingProxy(broker.port());
    }

    @AfterEach
    void stop() throws Exception {
        for (MqttSource each : opened) {
            each.close();
        }
        proxy.close();
        broker.close();
    }

    private MqttSource open(String url, long attempt) throws Exception {
        SourceSettings settings = new SourceSettings(Login.anonymous(url), "reader", "in/#", 65535, 32 << 20, FENCE,
                attempt, false, PATIENCE);
        MqttSource source = new MqttSource(settings, new MemoryJournal());
        opened.add(source);
        source.open(0, 0);
        return source;
    }

    /** Makes note and fence, as SpecK does before a job starts. */
    private void prepare(String fence) throws Exception {
        Topic.retain(broker.url(), NOTE, "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}");
        Topic.session(broker.url(), "reader", "in/#");
        Topic.retain(broker.url(), FENCE, fence);
    }

    /** Deletes session and note, as SpecK does with a job. */
    private void delete(long tombstone) throws Exception {
        Topic.retain(broker.url(), FENCE, "{\"attempt\": " + tombstone + ", \"deleted\": true}");
        Topic.forget(broker.url(), "reader");
        Topic.retain(broker.url(), NOTE, "");
    }

    private String retained(String topic) throws Exception {
        CompletableFuture<String> found = new CompletableFuture<>();
        Connection connection = Connection.open(Login.anonymous(broker.url()), Session.temporary("look"),
                new ConnectionListener() {
                    @Override
                    public void published(Connection from, MqttPublishMessage message) {
                        found.complete(message.payload().toString(StandardCharsets.UTF_8));
                    }
                }, PATIENCE);
        try {
            connection.subscribe(List.of(topic), PATIENCE);
            return found.get(1, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            return null;
        } finally {
            connection.closeAndEndSession();
        }
    }

    /** True if the broker has the session; looking takes it over. */
    private boolean sessionExists() throws Exception {
        Connection look = Connection.open(Login.anonymous(broker.url()), Session.persistent("reader", 1),
                new ConnectionListener() {}, PATIENCE);
        boolean exists = look.sessionPresent();
        if (exists) {
            look.abandon();
        } else {
            look.closeAndEndSession();
        }
        return exists;
    }

    private static TakenOverException end(MqttSource source) {
        return assertThrows(TakenOverException.class, () -> {
            while (true) {
                source.await(Long.MAX_VALUE, SECOND / 20);
            }
        });
    }

    private void assertReads(MqttSource source, String... texts) throws Exception {
        Topic.publish(broker.url(), "in/a", List.of(texts));
        Await.until("messages", () -> source.await(texts.length, SECOND) >= texts.length);
    }

    /** As after a power cut of a broker that saved the session before it had its subscription. */
    @Test
    void aReaderHasASessionFilledThatIsNotComplete() throws Exception {
        prepare(OWNED);
        Topic.retain(broker.url(), NOTE, "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\", \"pending\": true}");
        MqttSource source = open(broker.url(), 4);
        Await.until("the request", () -> "in/#".equals(retained("speck/again/+")));
        Await.until("the note", () -> "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}".equals(retained(NOTE)));
        assertReads(source, "a");
        assertEquals(1, source.metrics().lostSessions());
    }

    /** As after a power cut of broker and engine within seconds of the job's first start: no record tells of the session. */
    @Test
    void aNewReaderHasASessionFilledThatTheBrokerLostWithItsFence() throws Exception {
        MqttSource source = open(broker.url(), 4);
        Await.until("the request", () -> "in/#".equals(retained("speck/again/+")));
        assertReads(source, "a");
    }

    /** Should it end before it has asked the writers, the session that it has made is there, and its fence. */
    @Test
    void aProcessThatFoundNoFenceWritesAPendingNoteBeforeItMakesTheSession() throws Exception {
        process(1_000).check(PATIENCE);
        assertEquals("{\"topics\": [\"in/#\"], \"pending\": true}", retained(NOTE));
        assertFalse(sessionExists());
        Topic.session(broker.url(), "reader", "in/#"); // the process ends
        MqttSource next = open(broker.url(), 4);
        Await.until("the request", () -> "in/#".equals(retained("speck/again/+")));
        Await.until("the note", () -> "{\"topics\": [\"in/#\"]}".equals(retained(NOTE)));
        assertReads(next, "a");
    }

    @Test
    void aNewReaderHasASessionFilledThatTheBrokerLostWithItsNote() throws Exception {
        Topic.retain(broker.url(), NOTE, "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\", \"pending\": true}");
        Topic.retain(broker.url(), FENCE, OWNED);
        MqttSource source = open(broker.url(), 4);
        Await.until("the request", () -> "in/#".equals(retained("speck/again/+")));
        Await.until("the note", () -> "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}".equals(retained(NOTE)));
        assertReads(source, "a");
    }

    @Test
    void aReaderLeavesACompleteSessionAsItIs() throws Exception {
        prepare(OWNED);
        assertReads(open(broker.url(), 4), "a");
        assertNull(retained("speck/again/+"));
    }

    @Test
    void theLaterProcessOfAnAttemptReadsAndTheEarlierEnds() throws Exception {
        prepare(OWNED);
        MqttSource earlier = open(broker.url(), 4);
        MqttSource later = open(broker.url(), 4);
        String message = end(earlier).getMessage();
        assertTrue(message.contains("a later process of attempt 4"), message);
        assertReads(later, "a", "b");
        assertEquals("0a1b", FenceText.parse(retained(FENCE), FENCE).owner());
    }

    @Test
    void aProcessThatWasCutOffEndsWhenItComesBack() throws Exception {
        prepare(OWNED);
        MqttSource earlier = open(proxy.url(), 4);
        proxy.refuse(true);
        proxy.cut();
        MqttSource later = open(broker.url(), 4);
        proxy.refuse(false);
        end(earlier);
        assertReads(later, "a");
    }

    @Test
    void theOnlyProcessKeepsItsSessionOverLostConnections() throws Exception {
        prepare(OWNED);
        MqttSource source = open(proxy.url(), 4);
        String claimed = retained(FENCE);
        for (int i = 1; i <= 3; i++) {
            proxy.cut();
            int times = i;
            Await.until("reconnected", () -> source.metrics().reconnections() >= times && source.metrics().connected());
        }
        assertEquals(claimed, retained(FENCE));
        assertReads(source, "a");
    }

    @Test
    void oneOfManyThatBeginAtOnceReads() throws Exception {
        prepare(OWNED);
        int count = 4;
        ExecutorService threads = Executors.newFixedThreadPool(count);
        CountDownLatch together = new CountDownLatch(count);
        List<CompletableFuture<MqttSource>> starts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            starts.add(CompletableFuture.supplyAsync(() -> started(together), threads));
        }
        List<MqttSource> begun = new ArrayList<>();
        for (CompletableFuture<MqttSource> each : starts) {
            MqttSource source = each.get(60, TimeUnit.SECONDS);
            if (source != null) {
                begun.add(source);
            }
        }
        threads.shutdown();
        List<MqttSource> ended = new ArrayList<>();
        Await.until("one is left", () -> {
            for (MqttSource each : begun) {
                try {
                    each.await(1, SECOND / 20);
                } catch (TakenOverException e) {
                    ended.add(each);
                }
            }
            return begun.stream().filter(each -> !ended.contains(each)).count() == 1;
        });
        assertReads(begun.stream().filter(each -> !ended.contains(each)).findFirst().orElseThrow(), "a");
    }

    private MqttSource started(CountDownLatch together) {
        try {
            together.countDown();
            together.await();
            return open(broker.url(), 4);
        } catch (TakenOverException e) {
            return null;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void aBrokerThatLostItsMemoryGetsFenceNoteAndOwnerAgain() throws Exception {
        prepare(OWNED);
        MqttSource source = open(broker.url(), 4);
        broker.kill();
        broker.start(); // nothing was saved
        Await.until("raised", () -> source.metrics().lostSessions() == 1 && source.metrics().connected());
        FenceText raised = FenceText.parse(retained(FENCE), FENCE);
        assertEquals(List.of(4L, "0a1b"), List.of(raised.attempt(), raised.owner()));
        assertEquals("{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}", retained(NOTE));
        assertReads(source, "a");
    }

    @Test
    void afterTheLossOfTheFenceTheLaterProcessPrevails() throws Exception {
        prepare(OWNED);
        MqttSource earlier = open(proxy.url(), 4);
        proxy.refuse(true);
        proxy.cut();
        MqttSource later = open(broker.url(), 4);
        broker.kill();
        broker.start();
        proxy.refuse(false); // both may be the first to raise it
        end(earlier);
        Await.until("connected", () -> later.metrics().connected());
        assertReads(later, "a");
    }

    private Fence process(long clock) {
        return new Fence(new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 32 << 20, FENCE, 4,
                false, PATIENCE), () -> clock);
    }

    private void forgetAll() throws Exception {
        broker.kill();
        broker.forget();
        broker.start();
    }

    /** The broker forgets all while the earlier process is cut off; then the later one begins, with a slower clock. */
    @Test
    void aFasterClockDoesNotMakeAnEarlierProcessTheLaterOne() throws Exception {
        prepare(OWNED);
        Fence earlier = process(2_000_000);
        earlier.check(PATIENCE);
        forgetAll();
        Fence later = process(1_000_000);
        later.check(PATIENCE);
        assertThrows(TakenOverException.class, () -> earlier.check(PATIENCE));
        later.check(PATIENCE);
        assertEquals(1_000_000, FenceText.parse(retained(FENCE), FENCE).claim());
    }

    @Test
    void aProcessThatHasSeenTheEarlierClaimRaisesItsOwnAgain() throws Exception {
        prepare(OWNED);
        Fence first = process(3_000_000);
        first.check(PATIENCE);
        Fence second = process(1_000_000); // above the first, by the fence
        second.check(PATIENCE);
        forgetAll();
        first.check(PATIENCE); // comes first, and does not know of the second yet
        second.check(PATIENCE);
        assertThrows(TakenOverException.class, () -> first.check(PATIENCE));
        second.check(PATIENCE);
    }

    @Test
    void oneOfTwoThatBeganWithoutAFencePrevails() throws Exception {
        Fence one = process(2_000);
        one.check(PATIENCE);
        forgetAll();
        Fence other = process(1_000);
        other.check(PATIENCE);
        one.check(PATIENCE); // no claim was there when it began: the time decides
        assertThrows(TakenOverException.class, () -> other.check(PATIENCE));
        one.check(PATIENCE);
    }

    @Test
    void aDeletedSessionIsNotMadeAnewByACopyThatComesBack() throws Exception {
        prepare(OWNED);
        MqttSource zombie = open(proxy.url(), 4);
        proxy.refuse(true);
        proxy.cut();
        delete(5);
        proxy.refuse(false);
        String message = end(zombie).getMessage();
        assertTrue(message.contains("was deleted"), message);
        assertFalse(sessionExists());
        assertTrue(FenceText.parse(retained(FENCE), FENCE).deleted());
        assertThrows(TakenOverException.class, () -> open(broker.url(), 4));
        assertFalse(sessionExists());
    }

    @Test
    void aReaderThatIsThereEndsWithTheSession() throws Exception {
        prepare(OWNED);
        MqttSource zombie = open(broker.url(), 4);
        delete(5);
        end(zombie);
        assertFalse(sessionExists());
    }

    @Test
    void theJobThatIsMadeAnewReadsAboveTheTombstone() throws Exception {
        prepare(OWNED);
        MqttSource zombie = open(proxy.url(), 4);
        proxy.refuse(true);
        proxy.cut();
        delete(5);
        prepare("{\"attempt\": 6, \"owner\": \"0a1b\"}");
        MqttSource anew = open(broker.url(), 6);
        proxy.refuse(false);
        end(zombie);
        assertReads(anew, "a");
    }

    @Test
    void aSessionWhoseNoteIsGoneIsNotMade() throws Exception {
        prepare(OWNED);
        Topic.forget(broker.url(), "reader");
        Topic.retain(broker.url(), NOTE, "");
        assertThrows(TakenOverException.class, () -> open(broker.url(), 4));
        assertFalse(sessionExists());
    }

    @Test
    void aSessionThatTheBrokerLostAloneIsMadeAgain() throws Exception {
        prepare(OWNED);
        Topic.forget(broker.url(), "reader");
        assertReads(open(broker.url(), 4), "a");
    }

    @Test
    void aNumberFarAboveItsOwnEndsAReaderWithTheTopicAndChangesNothing() throws Exception {
        String forged = "{\"attempt\": 999999999999999999, \"owner\": \"0a1b\"}";
        prepare(forged);
        BrokerException refused = assertThrows(BrokerException.class, () -> open(broker.url(), 4));
        assertTrue(refused.getMessage().contains("'" + FENCE + "' names attempt 999999999999999999 (expected at most "
                + "1000000004, as this is attempt 4)"), refused.getMessage());
        assertEquals(forged, retained(FENCE));
        Topic.retain(broker.url(), FENCE, OWNED);
        assertReads(open(broker.url(), 4), "a");
    }

    @Test
    void theFurthestNumberThatIsBelievedEndsAReader() {
        String text = "{\"attempt\": 1000000004}";
        assertEquals(1_000_000_004L, FenceText.parse(text, FENCE, 4).attempt());
        assertThrows(BrokerException.class, () -> FenceText.parse(text, FENCE, 3));
    }

    @Test
    void theTextsOfOtherVersions() {
        assertEquals(new FenceText(7, 0, "", "", false), FenceText.parse("{\"attempt\": 7}", FENCE));
        FenceText full = new FenceText(7, 12, "ab", "0a1b", false);
        assertEquals(full, FenceText.parse(full.toJson(), FENCE));
        assertTrue(FenceText.parse("{\"attempt\": 5, \"deleted\": true, \"owner\": \"0a1b\"}", FENCE).deleted());
        assertThrows(BrokerException.class, () -> FenceText.parse("{}", FENCE));
    }
}
