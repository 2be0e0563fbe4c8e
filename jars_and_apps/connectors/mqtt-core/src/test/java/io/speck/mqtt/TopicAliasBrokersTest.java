package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Message;
import io.speck.mqtt.net.TopicAliases;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Readers that permit topic aliases, at real brokers. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TopicAliasBrokersTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final Duration PATIENCE = Duration.ofSeconds(40);
    /** The property Topic Alias Maximum of 100 (MQTT 5, 3.1.2.11.5). */
    private static final String PERMITS = "220064";
    private static final String REFUSES_VERSION = """
            {"defaultACLAccess": {"publishClientSend": true, "publishClientReceive": true, "subscribe": true},
             "roles": [{"rolename": "r", "acls": [
               {"acltype": "subscribeLiteral", "topic": "$SYS/broker/version", "priority": 1, "allow": false}]}],
             "groups": [{"groupname": "g", "roles": [{"rolename": "r"}]}], "anonymousGroup": "g", "clients": []}
            """;
    private static final int TOPICS = 12; // Mosquitto 2.1 numbers 10
    private static final int TOPIC_LENGTH = 200;
    private static final int COUNT = 600;

    @TempDir
    Path folder;
    private final List<AutoCloseable> opened = new ArrayList<>();
    private CuttingProxy proxy;

    @BeforeEach
    void start() {
        System.setProperty(CompactWire.PROPERTY, "compact");
    }

    @AfterEach
    void stop() throws Exception {
        System.clearProperty(CompactWire.PROPERTY);
        Collections.reverse(opened);
        for (AutoCloseable each : opened) {
            each.close();
        }
    }

    private Mosquitto mosquitto(String... settings) throws Exception {
        Mosquitto broker = Mosquitto.start(folder, settings);
        opened.add(broker);
        return broker;
    }

    private MqttSource reader(int port) throws Exception {
        return reader(port, null);
    }

    private MqttSource reader(int port, String fence) throws Exception {
        proxy = new CuttingProxy(port);
        opened.add(proxy);
        MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535,
                32 << 20, fence, fence == null ? -1 : 1, false, PATIENCE), new MemoryJournal());
        opened.add(source);
        source.open(0, 0);
        return source;
    }

    /** Returns, for each CONNECT packet of the reader, true if it permits topic aliases. */
    private List<Boolean> permitted() {
        String client = HexFormat.of().formatHex("reader".getBytes(StandardCharsets.UTF_8));
        return proxy.beginnings().stream().map(HexFormat.of()::formatHex).filter(each -> each.contains(client))
                .map(each -> each.contains(PERMITS)).toList();
    }

    private static String topic(int number) {
        return "in/" + Character.toString('a' + number % TOPICS).repeat(TOPIC_LENGTH);
    }

    private static void send(String url, int from, int to) throws InterruptedException {
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(url), PATIENCE))) {
            for (int number = from; number < to; number++) {
                sink.send(topic(number), Integer.toString(number).getBytes(StandardCharsets.UTF_8), null, null, null);
            }
            sink.flush();
        }
    }

    private static List<String> expected(int count) {
        return IntStream.range(0, count).mapToObj(number -> topic(number) + " " + number).sorted().toList();
    }

    private static List<String> read(MqttSource source, int count) {
        Await.until(count + " messages", () -> source.await(count, SECOND) >= count);
        return source.messages(0, Long.MAX_VALUE).stream().map(TopicAliasBrokersTest::text).sorted().toList();
    }

    private static String text(Message message) {
        return message.topic() + " " + new String(message.payload(), StandardCharsets.UTF_8);
    }

    @Test
    void onlyReadersWithTheBinaryFormPermitNumbers() throws Exception {
        Mosquitto broker = mosquitto();
        reader(broker.port());
        assertEquals(List.of(true), permitted());
        System.clearProperty(CompactWire.PROPERTY);
        reader(broker.port());
        assertEquals(List.of(false), permitted());
    }

    @Test
    void aBrokerThatDoesNotTellItsVersionSendsTopics() throws Exception {
        MqttSource source = reader(mosquitto("sys_interval 0").port());
        assertEquals(List.of(false), permitted());
        assertEquals(0, source.metrics().received());
    }

    @Test
    void aBrokerThatRefusesToTellItsVersionSendsTopics() throws Exception {
        Path plugin = Mosquitto.plugin("mosquitto_dynamic_security.so");
        Path rules = Files.writeString(folder.resolve("rules.json"), REFUSES_VERSION);
        Files.setPosixFilePermissions(rules, PosixFilePermissions.fromString("rw-rw-rw-"));
        reader(mosquitto("plugin " + plugin, "plugin_opt_config_file " + rules).port());
        assertEquals(List.of(false), permitted());
    }

    @Test
    void onlyVersionsOfMosquittoAreTrusted() {
        assertTrue(TopicAliases.trusted("mosquitto version 2.1.2"));
        assertFalse(TopicAliases.trusted("2.7.9"));
        assertFalse(TopicAliases.trusted(""));
        assertFalse(TopicAliases.trusted(null));
    }

    /** All that was not acknowledged comes again, on a connection that knows no number yet. */
    @Test
    void eachMessageHasItsTopicAfterACutAndAKill() throws Exception {
        Mosquitto.assumeVersion(2, 1);
        Mosquitto broker = mosquitto("sys_interval 1", "autosave_interval 0");
        MqttSource source = reader(broker.port());
        long before = sent(broker);
        send(broker.url(), 0, COUNT);
        assertEquals(expected(COUNT), read(source, COUNT));
        long bytes = sent(broker) - before;
        assertTrue(bytes < COUNT * TOPIC_LENGTH / 2, bytes + " bytes");
        proxy.cut();
        send(broker.url(), COUNT, 2 * COUNT);
        assertEquals(expected(2 * COUNT), read(source, 2 * COUNT));
        broker.save();
        broker.kill();
        broker.start();
        send(broker.url(), 2 * COUNT, 3 * COUNT);
        assertEquals(expected(3 * COUNT), read(source, 3 * COUNT));
        assertEquals(List.of(true), permitted().stream().distinct().toList());
        assertEquals(0, source.metrics().lost());
    }

    /** The bytes that the broker has sent, once it has counted all. */
    private static long sent(Mosquitto broker) throws Exception {
        Thread.sleep(2500); // it reports every second
        return Long.parseLong(CompactWire.retained(broker.url(), "$SYS/broker/bytes/sent"));
    }

    /** Every setting of the one process with every setting of the other, whatever the broker can do. */
    @ParameterizedTest
    @CsvSource({"text, text", "text, compact", "compact, text", "compact, compact"})
    void eachSettingOfAWriterGoesWithEachOfAReader(String writer, String reader) throws Exception {
        Mosquitto broker = mosquitto("sys_interval 1");
        Topic.retain(broker.url(), "speck/session/reader", "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}");
        Topic.retain(broker.url(), "speck/writers/reader", "{\"writers\": [\"job\"]}");
        System.setProperty(CompactWire.PROPERTY, reader);
        MqttSource source = reader(broker.port(), "speck/fence/reader");
        System.setProperty(CompactWire.PROPERTY, writer);
        List<Integer> forms = new CopyOnWriteArrayList<>();
        opened.add(CompactWire.watch(broker.url(), "in/+", forms));
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE))) {
            for (int number = 0; number < COUNT; number++) {
                byte[] sequence = (Stamp.prefix("1a2b3c4d", 0, 0) + number).getBytes(StandardCharsets.UTF_8);
                for (int repetition = 0; repetition < 2; repetition++) {
                    sink.send(topic(number), Integer.toString(number).getBytes(StandardCharsets.UTF_8), null,
                            "job".getBytes(StandardCharsets.UTF_8), sequence);
                }
                sink.flush();
                Thread.sleep(5); // for seconds in all: the broker's report, which permits the binary form, comes meanwhile
            }
        }
        assertEquals(expected(COUNT), read(source, COUNT));
        Await.until("the repetitions", () -> source.metrics().duplicatesDropped() == COUNT);
        assertEquals(0, source.metrics().badStamps());
        assertEquals(writer.equals("compact"), forms.stream().anyMatch(bytes -> bytes > 0));
    }

    /** mochi 2.7 would send numbers of the first connection on the second one. */
    @Test
    void aBrokerThatRepeatsNumbersOfAnEarlierConnectionSendsTopics() throws Exception {
        Mochi broker = new Mochi();
        opened.add(broker);
        MqttSource source = reader(broker.port());
        send(broker.url(), 0, COUNT / 2);
        read(source, COUNT / 2);
        proxy.cut();
        send(broker.url(), COUNT / 2, COUNT);
        // Its order differs when it sends again, so that the reader may take a message for a new one.
        assertEquals(expected(COUNT), read(source, COUNT).stream().distinct().toList());
        assertEquals(List.of(false), permitted().stream().distinct().toList());
    }
}
