package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.handler.codec.mqtt.MqttProperties;
import io.speck.connector.reader.Message;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Writers and readers of both forms of stamps at a real Mosquitto. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CompactWireTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final Duration PATIENCE = Duration.ofSeconds(40);
    private static final String RUN = "1a2b3c4d";
    private static final String RAISED = "{\"attempt\": 1, \"owner\": \"0a1b\"}";
    private static final AtomicInteger TESTS = new AtomicInteger();

    @TempDir
    static Path folder;
    private static Mosquitto shared;

    private Mosquitto broker = shared;
    private final String name = "test-" + TESTS.incrementAndGet();
    private String level = name;
    private String topic = name + "/a";
    private String note = noteOf(level);
    private MqttSink sink;
    private int sent;
    private final MemoryJournal journal = new MemoryJournal();
    private final List<AutoCloseable> opened = new ArrayList<>();
    /** For each message on the topic: the length of its correlation data; 0 with texts. */
    private final List<Integer> forms = new CopyOnWriteArrayList<>();

    /** Its reports of the store, which show that all fences have come, come every second. */
    private static Mosquitto broker(Path place) throws Exception {
        return Mosquitto.start(place, "autosave_interval 0", "sys_interval 1");
    }

    @BeforeAll
    static void share() throws Exception {
        System.setProperty(CompactWire.PROPERTY, "compact");
        shared = broker(folder);
    }

    @AfterAll
    static void end() {
        System.clearProperty(CompactWire.PROPERTY);
        shared.close();
    }

    @BeforeEach
    void start() throws Exception {
        System.setProperty(CompactWire.PROPERTY, "compact");
        use(shared);
    }

    /** Watches the topic, and makes the records that a coordinator does. */
    private void use(Mosquitto used) throws Exception {
        broker = used;
        watch();
        Topic.retain(broker.url(), "speck/session/" + name, note);
        Topic.retain(broker.url(), "speck/fence/" + name, RAISED);
        Topic.retain(broker.url(), "speck/writers/" + name, "{\"writers\": [\"job\"]}");
        sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE));
        opened.add(sink);
    }

    @AfterEach
    void stop() throws Exception {
        for (AutoCloseable each : opened) {
            each.close();
        }
    }

    private void watch() throws Exception {
        opened.add(CompactWire.watch(broker.url(), topic, forms));
    }

    private static String noteOf(String level) {
        return "{\"topics\": [\"" + level + "/#\"], \"owner\": \"0a1b\"}";
    }

    private MqttSource reader(long committed, long end) throws Exception {
        MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(broker.url()), name, level + "/#", 65535,
                32 << 20, "speck/fence/" + name, 1, false, PATIENCE), journal);
        opened.add(source);
        source.open(committed, end);
        return source;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void send(String sequence, String payload) throws InterruptedException {
        sink.send(topic, bytes(payload), null, bytes("job"), bytes(sequence));
        sink.flush();
    }

    private void send(int count) throws InterruptedException {
        for (int i = 0; i < count; i++, sent++) {
            sink.send(topic, bytes("m" + sent), null, bytes("job"), bytes(Stamp.prefix(RUN, 0, 0) + sent));
        }
        sink.flush();
    }

    /** Sends messages until the last one has this form. */
    private void sendUntil(boolean compact) {
        Await.until(compact ? "the binary form" : "texts", () -> {
            int before = forms.size();
            send(1);
            Await.until("a message", () -> forms.size() > before);
            return forms.get(before) > 0 == compact;
        });
    }

    private static List<Message> read(MqttSource source, long from, long to) {
        Await.until("messages up to " + to, () -> source.await(to, SECOND) >= to);
        return source.messages(from, to);
    }

    private void assertRead(MqttSource source, int from, int to) throws Exception {
        assertEquals(IntStream.range(from, to).mapToObj(number -> "m" + number + " " + RUN + "/0/0/" + number).toList(),
                read(source, from, to).stream().map(each -> new String(each.payload(), StandardCharsets.UTF_8) + " "
                        + each.stamp().sequence()).toList());
        assertEquals(to, source.await(to + 1, SECOND / 10), "none twice");
    }

    /** Lets a reader end with a batch in the binary form that it has recorded and not committed; returns its start. */
    private int leaveBatch(int count) throws Exception {
        MqttSource source = reader(0, 0);
        sendUntil(true);
        int from = sent;
        send(count);
        read(source, 0, sent);
        source.close(0, from, 1);
        source.commit(from);
        source.close(from, sent, 1);
        source.close();
        return from;
    }

    @Test
    void theFormFollowsTheReadersOfTheTopic() throws Exception {
        Topic.session(broker.url(), name, name + "/#");
        sendUntil(false);
        MqttSource source = reader(0, 0);
        sendUntil(true);
        int compact = sent;
        send("d7zzzzzzz/0/0/1000000.0~0012abef", "m" + sent++);
        Await.until("all", () -> forms.size() == sent);
        assertTrue(forms.get(sent - 1) <= 20, forms + " bytes");
        assertEquals("d7zzzzzzz/0/0/1000000.0~0012abef", read(source, compact, sent).get(0).stamp().sequence());
        assertEquals("job", source.messages(0, 1).get(0).stamp().job());
        Topic.retain(broker.url(), "speck/session/late", note); // a reader of another version, which has claimed nothing
        sendUntil(false);
        Topic.retain(broker.url(), "speck/session/late", "");
        sendUntil(true);
        Topic.retain(broker.url(), "speck/fence/" + name, "{\"attempt\": 2, \"owner\": \"0a1b\"}"); // it may be an old one
        sendUntil(false);
        assertEquals(0, source.metrics().badStamps() + source.metrics().duplicatesDropped());
    }

    @Test
    void aTopicThatNoSessionReadsHasTexts() throws Exception {
        reader(0, 0);
        sendUntil(true);
        try (Wire wire = new Wire(broker.url(), "out-a")) {
            sink.send("out-a", bytes("m"), null, bytes("job"), bytes("r/0/0/0"));
            sink.flush();
            assertEquals("r/0/0/0", wire.take(1).get(0).stamp().sequence());
        }
    }

    /** Nobody but SpecK's own parts reads such a topic, so that no setting is needed. */
    @Test
    void theTopicsBetweenThePartsOfAQueryNeedNoSetting(@TempDir Path place) throws Exception {
        System.clearProperty(CompactWire.PROPERTY);
        Mosquitto own = broker(place); // a connection that is opened with this setting
        opened.add(own);
        level = "speck/sql/" + name;
        topic = level + "/0/rows-a";
        note = noteOf(level);
        use(own);
        MqttSource source = reader(0, 0);
        sendUntil(true);
        assertRead(source, 0, sent);
        Topic.retain(broker.url(), "speck/session/late", note); // a reader of an older version
        sendUntil(false);
        Topic.retain(broker.url(), "speck/session/late", "");
        sendUntil(true);
        assertRead(source, 0, sent);
    }

    @Test
    void otherTopicsHaveTextsWithoutTheSetting(@TempDir Path place) throws Exception {
        System.clearProperty(CompactWire.PROPERTY);
        staysAtTexts(name, place);
    }

    @Test
    void theSettingTextHoldsForTheTopicsOfQueriesToo(@TempDir Path place) throws Exception {
        System.setProperty(CompactWire.PROPERTY, "text");
        staysAtTexts("speck/sql/" + name, place);
    }

    private void staysAtTexts(String first, Path place) throws Exception {
        Mosquitto own = broker(place);
        opened.add(own);
        level = first;
        topic = level + "/a";
        note = noteOf(level);
        use(own);
        MqttSource source = reader(0, 0);
        Await.until("the claim", () -> CompactWire.retained(broker.url(), "speck/fence/" + name).contains("compact"));
        for (long end = System.nanoTime() + 3 * SECOND; System.nanoTime() < end;) { // reports come every second
            send(1);
            TimeUnit.MILLISECONDS.sleep(100);
        }
        assertRead(source, 0, sent);
        Await.until("all", () -> forms.size() >= sent);
        assertEquals(List.of(0), forms.stream().distinct().toList());
    }

    @Test
    void retainedResultsHaveTexts() throws Exception {
        reader(0, 0);
        sendUntil(true);
        try (MqttSink retaining = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE, true))) {
            int before = forms.size();
            retaining.send(topic, bytes("m"), null, bytes("job"), bytes("r/0/0/0"));
            retaining.flush();
            Await.until("a message", () -> forms.size() > before);
            assertEquals(0, forms.get(before));
        }
    }

    @Test
    void aRepetitionInTheOtherFormIsDropped() throws Exception {
        List<String> sequences = List.of("r/0/0/1", "r/0/0/2.0", "r/0/0/3.0~0012abef");
        MqttSource source = reader(0, 0);
        sendUntil(true);
        int first = sent;
        for (String each : sequences) {
            send(each, each);
            Topic.publishStamped(broker.url(), name + "/b", "job", each, "elsewhere"); // the hash of another topic
        }
        System.clearProperty(CompactWire.PROPERTY);
        Login other = new Login(BrokerAddress.parse(broker.url()), "other", null, TlsFiles.NONE); // a connection of its own
        try (MqttSink texts = new MqttSink(new SinkSettings(other, PATIENCE))) {
            for (String each : sequences) {
                texts.send(topic, bytes(each), null, bytes("job"), bytes(each));
            }
            texts.send(topic, bytes("last"), null, bytes("job"), bytes("r/0/0/9"));
            texts.flush();
        }
        List<String> found = Topic.texts(read(source, first, first + 5));
        assertEquals(List.of(sequences.get(0), "elsewhere", sequences.get(1), sequences.get(2), "last"), found);
        assertEquals(1, source.metrics().collisions(), "the counted stamp with another content");
        assertEquals(2, source.metrics().changedRepetitions(), "derived ones with another content");
        assertEquals(3, source.metrics().duplicatesDropped(), "the same in the other form");
    }

    /** The reader dies with a batch, the broker loses the session, and the writer sends the messages as texts. */
    @Test
    void aBatchIsFilledByMessagesInTheOtherForm() throws Exception {
        int from = leaveBatch(50);
        Topic.forget(broker.url(), name);
        Topic.retain(broker.url(), "speck/fence/" + name, RAISED);
        sendUntil(false);
        MqttSource next = reader(from, from + 50);
        next.awaitWhole();
        assertRead(next, from, sent);
        assertEquals(1, next.metrics().lostSessions());
        assertEquals(0, next.metrics().lost());
    }

    @Test
    void writersThatNobodyNamedAndOtherCorrelationData() throws Exception {
        MqttSource source = reader(0, 0);
        sendUntil(true);
        long known = sent;
        sink.send(topic, bytes("a"), null, bytes("stranger"), bytes("r/0/0/0"));
        sink.send(topic, bytes("b"), null, bytes("stranger"), bytes("r/0/0/0"));
        sink.flush();
        publishCorrelated("c", bytes("2c1f3f0e-9a51-4bd0-8c80-8f3d1d4c2b11"));
        List<Message> found = read(source, known, known + 3);
        assertEquals(List.of("a", "b", "c"), Topic.texts(found));
        found.forEach(each -> assertNull(each.stamp()));
        assertEquals(2, source.metrics().badStamps());
    }

    private void publishCorrelated(String payload, byte[] data) throws Exception {
        Connection connection = Connection.open(Login.anonymous(broker.url()), Session.temporary("device"),
                new ConnectionListener() {}, PATIENCE);
        MqttProperties properties = new MqttProperties();
        properties.add(new MqttProperties.BinaryProperty(MqttProperties.CORRELATION_DATA, data));
        connection.execute(() -> connection.writeAndFlush(CompactWire.publish(topic, payload, properties)));
        connection.closeAndEndSession();
    }

    /** A writer that is removed from the list has messages in the batch of a reader that dies. */
    @Test
    void aRecordedNameOutlivesItsList() throws Exception {
        int from = leaveBatch(10);
        Topic.retain(broker.url(), "speck/writers/" + name, "{\"writers\": [\"other\"]}");
        MqttSource next = reader(from, sent);
        next.awaitWhole();
        assertRead(next, from, sent);
    }

    @Test
    void aBrokerThatIsKilledGetsAllAgainWhateverTheForm(@TempDir Path place) throws Exception {
        Mosquitto own = broker(place);
        opened.add(own);
        use(own);
        MqttSource source = reader(0, 0);
        sendUntil(true);
        broker.save();
        send(2000);
        broker.kill();
        broker.start();
        send(1000);
        assertRead(source, 0, sent);
        watch();
        sendUntil(true);
        assertRead(source, 0, sent);
    }

    @Test
    void twoNamesWithOneHashAreNotAnnounced() throws Exception {
        String[] names = CompactWire.sameHash();
        assertEquals(CompactForm.hash(names[0]), CompactForm.hash(names[1]));
        Topic.retain(broker.url(), "speck/writers/" + name,
                "{\"writers\": [\"job\", \"" + names[0] + "\", \"" + names[1] + "\"]}");
        reader(0, 0);
        Await.until("the claim", () -> CompactWire.retained(broker.url(), "speck/fence/" + name).contains("nonce"));
        assertFalse(CompactWire.retained(broker.url(), "speck/fence/" + name).contains("compact"));
    }
}
