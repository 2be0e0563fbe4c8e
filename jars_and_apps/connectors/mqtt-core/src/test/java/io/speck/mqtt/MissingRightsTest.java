package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.writer.SinkMetrics;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.writer.MqttSink;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Recovers from the loss of a broker's memory while it refuses messages, as a right is missing that comes later. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MissingRightsTest {
    private static final Duration PATIENCE = Duration.ofSeconds(40);
    private static final String ALL = "topic readwrite #";
    private static final String READ = "topic read #";
    private static final String JOB = "without-rights";
    private static final String NOTE = "speck/session/reader";
    private static final String FENCE = "speck/fence/reader";

    @TempDir
    Path folder;
    private Mosquitto broker;

    @BeforeEach
    void start() throws Exception {
        permit(ALL);
        broker = Mosquitto.start(folder, "autosave_interval 0", "acl_file " + folder.resolve("rights"));
    }

    @AfterEach
    void stop() throws Exception {
        broker.close();
    }

    private void permit(String... rights) throws IOException {
        Path file = folder.resolve("rights");
        Files.writeString(file, "topic read $SYS/#\n" + String.join("\n", rights) + "\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Its input is acknowledged: no job would write it again. */
    @Test
    void aMessageThatIsSentAgainAndRefusedForAWhileIsNotLost() throws Exception {
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE))) {
            sink.send("in/a", bytes("m0"), null, bytes(JOB), bytes("run/0/0/0"));
            sink.flush();
            broker.kill();
            permit(READ, "topic write speck/#");
            broker.start();
            try (Topic collector = new Topic(broker.url(), "in/#")) {
                sink.send("speck/behind", bytes("m1"), null, bytes(JOB), bytes("run/0/0/1"));
                sink.flush();
                assertEquals(1, SinkMetrics.of(JOB).resent());
                permit(ALL);
                broker.reload();
                assertEquals(List.of("m0"), collector.take(1));
            }
            assertEquals(0, SinkMetrics.of(JOB).retainedDropped());
        }
    }

    /** Writers send what the lost session had collected only on request, and a note that is not pending asks nobody. */
    @Test
    void aRequestThatIsRefusedForAWhileIsRepeated() throws Exception {
        broker.close();
        broker = Mosquitto.start(folder.resolve("bounded"), "autosave_interval 0",
                "acl_file " + folder.resolve("rights"), "max_queued_messages 100000");
        assertRepeatsARefusedRequest();
    }

    /** Mosquitto 2.0 does so after each refusal where its queues have no bound. */
    @Test
    void aRequestThatIsRefusedWithTheConnectionIsRepeated() throws Exception {
        assertRepeatsARefusedRequest();
    }

    /** The session that it has made is there by then, and no record tells the next reader that the broker had lost it. */
    @Test
    void aReaderThatEndsBeforeItHasAskedLeavesThatToTheNextOne() throws Exception {
        String complete = "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}";
        Topic.retain(broker.url(), NOTE, complete);
        Topic.session(broker.url(), "reader", "in/#");
        Topic.retain(broker.url(), FENCE, "{\"attempt\": 4, \"owner\": \"0a1b\"}");
        try (CuttingProxy proxy = new CuttingProxy(broker.port());
                MqttSource first = new MqttSource(settings(proxy.url()), new MemoryJournal())) {
            first.open(0, 0);
            proxy.refuse(true);
            proxy.cut();
            Topic.forget(broker.url(), "reader");
            permit(READ, "topic write in/#", "topic write speck/fence/+", "topic write speck/session/+");
            broker.reload();
            proxy.refuse(false);
            Await.until("the session", () -> first.metrics().lostSessions() == 1 && first.metrics().connected());
            proxy.refuse(true);
            proxy.cut();
        }
        permit(ALL);
        broker.reload();
        try (Topic notes = new Topic(broker.url(), NOTE);
                MqttSource second = new MqttSource(settings(broker.url()), new MemoryJournal())) {
            assertTrue(notes.take(1).get(0).contains("pending"));
            second.open(0, 0);
            try (Topic requests = new Topic(broker.url(), "speck/again/+")) {
                assertEquals(List.of("in/#"), requests.take(1));
            }
            assertEquals(complete, notes.take(2).get(1));
        }
    }

    private static SourceSettings settings(String url) {
        return new SourceSettings(Login.anonymous(url), "reader", "in/#", 65535, 32 << 20, FENCE, 4, false, PATIENCE);
    }

    private void assertRepeatsARefusedRequest() throws Exception {
        String complete = "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}";
        Topic.retain(broker.url(), NOTE, complete.replace("}", ", \"pending\": true}"));
        Topic.retain(broker.url(), FENCE, "{\"attempt\": 4, \"owner\": \"0a1b\"}");
        broker.stop();
        permit(READ, "topic write in/#", "topic write speck/fence/+", "topic write speck/session/+");
        broker.start();
        try (Topic notes = new Topic(broker.url(), NOTE);
                MqttSource source = new MqttSource(settings(broker.url()), new MemoryJournal())) {
            source.open(0, 0);
            Topic.publish(broker.url(), "in/a", List.of("m0"));
            Await.until("a message", () -> source.await(1, TimeUnit.SECONDS.toNanos(1)) >= 1);
            assertTrue(notes.all().stream().allMatch(each -> each.contains("pending")), notes.all().toString());
            permit(ALL);
            broker.reload();
            try (Topic requests = new Topic(broker.url(), "speck/again/+")) {
                assertEquals(List.of("in/#"), requests.take(1));
            }
            assertEquals(complete, notes.take(2).get(1));
        }
    }
}
