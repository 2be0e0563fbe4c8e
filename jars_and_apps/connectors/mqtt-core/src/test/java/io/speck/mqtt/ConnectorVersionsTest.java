package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.reader.ReaderProcess;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import io.speck.mqtt.writer.WriterProcess;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * A connector of before the binary form of stamps, and the present one whose writers may use it; a trial. {@code
 * -Dspeck.old.jar=} names the {@code spark-mqtt.jar} of that version, as {@code make jars} builds it in an older commit.
 */
@EnabledIfSystemProperty(named = "speck.old.jar", matches = ".+")
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ConnectorVersionsTest {
    private static final Duration PATIENCE = Duration.ofSeconds(40);
    private static final int COUNT = 200;

    @TempDir
    Path folder;
    private Mosquitto broker;

    @BeforeEach
    void start() throws Exception {
        System.setProperty(CompactWire.PROPERTY, "compact");
        broker = Mosquitto.start(folder, "sys_interval 1");
        Topic.retain(broker.url(), "speck/session/reader", "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}");
        Topic.retain(broker.url(), "speck/fence/reader", "{\"attempt\": 1, \"owner\": \"0a1b\"}");
        Topic.retain(broker.url(), "speck/writers/reader", "{\"writers\": [\"job\"]}");
    }

    @AfterEach
    void stop() {
        System.clearProperty(CompactWire.PROPERTY);
        broker.close();
    }

    private static String oldClasses() {
        Stream<String> kept = Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(each -> each.endsWith("test-classes") || each.contains("slf4j"));
        return Stream.concat(Stream.of(System.getProperty("speck.old.jar")), kept)
                .collect(Collectors.joining(File.pathSeparator));
    }

    private static List<String> expected() {
        return IntStream.range(0, COUNT).mapToObj(each -> "m" + each + " run/0/0/" + each).toList();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void anOldReaderGetsTexts() throws Exception {
        Process reader = new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"), "-Xmx64m", "-cp",
                oldClasses(), ReaderProcess.class.getName(), broker.url(), "reader", "in/#", Integer.toString(COUNT))
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (var lines = reader.inputReader();
                MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE))) {
            assertEquals(ReaderProcess.READS, lines.readLine());
            for (int number = 0; number < COUNT; number++) {
                byte[] sequence = bytes(Stamp.prefix("run", 0, 0) + number);
                sink.send("in/a", bytes("m" + number), null, bytes("job"), sequence);
                sink.send("in/a", bytes("m" + number), null, bytes("job"), sequence);
                sink.flush();
                Thread.sleep(10); // for seconds in all: the broker's report, which permits the binary form, comes meanwhile
            }
            assertEquals(expected(), lines.lines().toList());
        } finally {
            reader.destroyForcibly();
        }
    }

    @Test
    void anOldWriterIsUnderstood() throws Exception {
        SourceSettings settings = new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 32 << 20,
                "speck/fence/reader", 1, false, PATIENCE);
        try (MqttSource source = new MqttSource(settings, new MemoryJournal())) {
            source.open(0, 0);
            write(oldClasses(), "old");
            write(System.getProperty("java.class.path"), "new"); // the same messages in the other form
            Await.until("all", () -> source.await(COUNT, TimeUnit.SECONDS.toNanos(1)) >= COUNT);
            Await.until("the repetitions", () -> source.metrics().duplicatesDropped() == COUNT);
            assertEquals(expected(), source.messages(0, Long.MAX_VALUE).stream()
                    .map(each -> new String(each.payload(), StandardCharsets.UTF_8) + " " + each.stamp().sequence())
                    .toList());
        }
    }

    private void write(String classes, String spool) throws IOException {
        WriterProcess.started(classes, "write", broker.url(), folder.resolve(spool), 0, COUNT).close();
    }
}
