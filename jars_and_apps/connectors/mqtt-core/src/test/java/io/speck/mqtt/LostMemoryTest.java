package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A broker that is killed, and has forgotten what it had taken: it saves only when the test says so. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LostMemoryTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final Duration PATIENCE = Duration.ofSeconds(40);

    @TempDir
    Path folder;
    private Mosquitto broker;
    private CuttingProxy proxy;
    private MqttSink sink;
    private int sent;
    private final MemoryJournal journal = new MemoryJournal();
    private final List<AutoCloseable> opened = new ArrayList<>();

    @BeforeEach
    void start() throws Exception {
        broker = Mosquitto.start(folder, "autosave_interval 0");
        proxy = new CuttingProxy(broker.port());
        sink = new MqttSink(new SinkSettings(Login.anonymous(proxy.url()), PATIENCE));
        opened.add(sink);
    }

    @AfterEach
    void stop() throws Exception {
        for (AutoCloseable each : opened) {
            each.close();
        }
        proxy.close();
        broker.close();
    }

    private SourceSettings settings(String fence, long attempt) {
        return new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 32 << 20, fence, attempt,
                false, PATIENCE);
    }

    private MqttSource reader(long committed, long end) throws Exception {
        MqttSource source = new MqttSource(settings(null, -1), journal);
        opened.add(source);
        source.open(committed, end);
        return source;
    }

    private void send(int count) throws InterruptedException {
        for (int i = 0; i < count; i++, sent++) {
            sink.send("in/a", bytes("m" + sent), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + sent));
        }
        sink.flush();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static List<String> texts(MqttSource source, long start, long end) throws Exception {
        Await.until("messages up to " + end, () -> source.await(end, SECOND) >= end);
        return source.messages(start, end).stream()
                .map(each -> new String(each.payload(), StandardCharsets.UTF_8)).toList();
    }

    private static List<String> numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(number -> "m" + number).toList();
    }

    private void killAndStart() throws IOException {
        broker.kill();
        broker.start();
    }

    @Test
    void whatTheBrokerForgotIsSentAgainInItsOrder() throws Exception {
        reader(0, 0).close();
        broker.save();
        send(3000);
        killAndStart();
        send(10);
        assertEquals(numbers(0, 3010), texts(reader(0, 0), 0, 3010));
    }

    @Test
    void aReaderThatIsAheadOfTheBrokerReadsOn() throws Exception {
        MqttSource source = reader(0, 0);
        send(500);
        assertEquals(numbers(0, 500), texts(source, 0, 500));
        broker.save();
        send(500);
        texts(source, 0, 1000);
        source.close(0, 700, 1);
        source.commit(700);
        killAndStart();
        send(500);
        assertEquals(numbers(700, 1500), texts(source, 700, 1500));
        source.close(700, 1500, 1);
        source.commit(1500);
        send(10);
        assertEquals(numbers(1500, 1510), texts(source, 1500, 1510));
    }

    @Test
    void aSessionThatIsLostIsMadeAnewAndFilledAgain() throws Exception {
        MqttSource source = reader(0, 0);
        send(300);
        assertEquals(numbers(0, 300), texts(source, 0, 300));
        proxy.refuse(true); // the writer comes back first or last: both must do
        proxy.cut();
        broker.kill();
        broker.forget();
        broker.start();
        Await.until("a new session", () -> source.metrics().lostSessions() == 1 && source.metrics().connected());
        proxy.refuse(false);
        send(300);
        assertEquals(numbers(0, 600), texts(source, 0, 600));
    }

    @Test
    void whatAWriterSentBeforeTheSessionStoodAgainIsNotLost() throws Exception {
        MqttSource source = reader(0, 0);
        send(100);
        texts(source, 0, 100);
        source.close(0, 100, 1);
        source.commit(100);
        source.close();
        send(100);
        broker.kill();
        broker.forget();
        broker.start();
        send(100); // to nobody
        MqttSource again = reader(100, 100);
        send(100);
        assertEquals(numbers(100, 400), texts(again, 100, 400).stream()
                .sorted(java.util.Comparator.comparingInt(text -> Integer.parseInt(text.substring(1)))).toList());
        assertEquals(1, again.metrics().lostSessions());
    }

    @Test
    void aBatchIsWholeAgainThoughReaderAndBrokerDied() throws Exception {
        MqttSource source = reader(0, 0);
        send(200);
        texts(source, 0, 200);
        source.close(0, 50, 1);
        source.commit(50);
        source.close(50, 150, 1);
        source.close();
        broker.kill();
        broker.forget();
        broker.start();
        MqttSource again = reader(50, 150);
        again.awaitWhole();
        assertEquals(numbers(50, 150), texts(again, 50, 150));
        again.commit(150);
        assertEquals(numbers(150, 200), texts(again, 150, 200));
    }

    @Test
    void aMereCutRepeatsNothingThatTheBrokerIsKnownToHave() throws Exception {
        MqttSource source = reader(0, 0);
        try (Topic marks = new Topic(broker.url(), "speck/sink/+")) {
            send(1000);
            Await.until("the mark", () -> marks.all().contains("1000"));
        }
        proxy.cut();
        send(10);
        assertEquals(numbers(0, 1010), texts(source, 0, 1010));
        assertEquals(0, source.metrics().duplicatesDropped());
    }

    @Test
    void aFenceThatTheBrokerForgotIsRaisedAgain() throws Exception {
        SourceSettings fenced = settings("speck/fence/reader", 3);
        try (MqttSource source = new MqttSource(fenced, journal)) {
            source.open(0, 0);
            broker.kill();
            broker.forget();
            broker.start();
            Await.until("back", () -> source.metrics().reconnections() == 1 && source.metrics().connected());
            try (Topic fence = new Topic(broker.url(), "speck/fence/reader")) {
                assertEquals(List.of("{\"attempt\": 3}"), fence.take(1));
            }
        }
    }

    @Test
    void topicFiltersCoverWhatTheyShould() {
        for (String[] each : new String[][] {{"a", "a"}, {"a/+", "a/b"}, {"#", "a/b"}, {"a/#", "a"}, {"a/#", "a/b/c"},
            {"+/b", "a/b"}}) {
            assertTrue(TopicFilter.covers(each[0], each[1]), each[0]);
        }
        for (String[] each : new String[][] {{"a", "b"}, {"a", "a/b"}, {"a/+", "a"}, {"a/+", "a/b/c"}, {"+", "$a"},
            {"#", "$a/b"}}) {
            assertEquals(false, TopicFilter.covers(each[0], each[1]), each[0]);
        }
    }

    @Test
    void looseMarksTakeEachStampOnce() {
        StampMarks marks = new StampMarks();
        marks.advance(new Stamp("j", "r", 0, 0, 10));
        marks.loosen();
        List<Integer> taken = new ArrayList<>();
        for (int index : new int[] {9, 10, 15, 12, 11, 12, 15, 13, 14, 16, 11}) {
            if (marks.advance(new Stamp("j", "r", 0, 0, index))) {
                taken.add(index);
            }
        }
        assertEquals(List.of(15, 12, 11, 13, 14, 16), taken);
        marks.tighten();
        assertEquals(false, marks.advance(new Stamp("j", "r", 0, 0, 16)));
        assertTrue(marks.advance(new Stamp("j", "r", 0, 0, 17)));
    }

    @Test
    void whatIsKeptIsBounded() {
        byte[] job = bytes("job");
        Kept kept = new Kept(TimeUnit.SECONDS.toNanos(10), 10_000);
        for (int i = 0; i < 100; i++) {
            kept.add(new Outgoing(null, "t", bytes("t"), new byte[300], null, job, bytes("r/0/0/" + i)), i);
        }
        kept.add(new Outgoing(null, "t", bytes("t"), new byte[300], null, null, null), 100);
        assertEquals(100, kept.last(), "one without a stamp is not kept");
        List<Outgoing> left = kept.remove(message -> true);
        assertTrue(left.size() > 10 && left.size() < 20, left.size() + " messages");
        assertEquals(100, left.get(left.size() - 1).keptNumber);
        kept.add(left.get(0), 200);
        kept.trim(200 + TimeUnit.SECONDS.toNanos(11));
        assertTrue(kept.isEmpty());
    }
}
