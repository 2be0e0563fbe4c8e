package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Recovers from a broker that is killed, and loses acknowledged messages: it saves only on request of the test. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BrokerDataLossTest {
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
    void lostMessagesAreSentAgainInOrder() throws Exception {
        reader(0, 0).close();
        broker.save();
        send(3000);
        killAndStart();
        send(10);
        assertEquals(numbers(0, 3010), texts(reader(0, 0), 0, 3010));
    }

    @Test
    void aReaderAheadOfTheBrokerContinues() throws Exception {
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
    void aLostSessionIsCreatedAgainAndRefilled() throws Exception {
        MqttSource source = reader(0, 0);
        send(300);
        assertEquals(numbers(0, 300), texts(source, 0, 300));
        proxy.refuse(true); // the writer reconnects first or last: both must work
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
    void messagesSentBeforeTheSessionIsBackAreNotLost() throws Exception {
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
        send(100); // no session receives these
        MqttSource again = reader(100, 100);
        send(100);
        assertEquals(numbers(100, 400), sorted(texts(again, 100, 400)));
        assertEquals(1, again.metrics().lostSessions());
    }

    private static List<String> sorted(List<String> texts) {
        return texts.stream().sorted(Comparator.comparingInt(text -> Integer.parseInt(text.substring(1)))).toList();
    }

    @Test
    void aRestartAfterALostSessionDropsNothingThatComesLate() throws Exception {
        MqttSource source = reader(0, 0);
        send(100);
        texts(source, 0, 100);
        source.close(0, 100, 1);
        source.commit(100);
        source.close();
        send(100); // lost with the session, and held by the writer
        broker.kill();
        broker.forget();
        proxy.refuse(true);
        proxy.cut();
        broker.start();
        MqttSource second = reader(100, 100);
        second.close(100, 100, 1);
        assertEquals(1, second.metrics().lostSessions());
        late("in/a", "m200", 200); // a newer one comes first, and goes into the record
        assertEquals(List.of("m200"), texts(second, 100, 101));
        second.close(100, 101, 1);
        second.commit(101);
        second.close();
        MqttSource third = reader(101, 101);
        proxy.refuse(false); // only now the writer sends again what the session lost
        sent = 201;
        send(10);
        assertEquals(numbersBut(200, 100, 211), sorted(texts(third, 101, 211)));
        assertEquals(0, third.metrics().collisions());
    }

    private static List<String> numbersBut(int without, int from, int to) {
        return numbers(from, to).stream().filter(each -> !each.equals("m" + without)).toList();
    }

    /** Sends one message of the job's over a connection of its own, past the proxy. */
    private void late(String topic, String text, int number) throws Exception {
        try (MqttSink direct = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE))) {
            direct.send(topic, bytes(text), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + number));
            direct.flush();
        }
    }

    @Test
    void aBatchIsCompleteAgainAfterReaderAndBrokerDied() throws Exception {
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
    void aMereCutRepeatsNothingThatTheMarkCovers() throws Exception {
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
    void aLostFenceIsRaisedAgain() throws Exception {
        SourceSettings fenced = settings("speck/fence/reader", 3);
        try (MqttSource source = new MqttSource(fenced, journal)) {
            source.open(0, 0);
            broker.kill();
            broker.forget();
            broker.start();
            Await.until("back", () -> source.metrics().reconnections() == 1 && source.metrics().connected());
            try (Topic fence = new Topic(broker.url(), "speck/fence/reader")) {
                assertTrue(fence.take(1).get(0).startsWith("{\"attempt\": 3, "));
            }
        }
    }
}
