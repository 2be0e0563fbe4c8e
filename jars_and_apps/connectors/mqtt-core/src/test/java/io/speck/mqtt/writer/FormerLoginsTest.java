package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.Await;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.Login;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.Topic;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A writer and its broker die together, and the next process writes to the broker under another address or user. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FormerLoginsTest {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    @TempDir
    Path folder;
    private Path spool;
    private Mosquitto broker;

    @BeforeEach
    void start() throws IOException {
        broker = Mosquitto.start(folder, "autosave_interval 0");
        spool = folder.resolve("spool");
    }

    @AfterEach
    void stop() {
        broker.close();
    }

    /** Leaves 300 messages in a spool under the name localhost, and a broker that has none of them. */
    private Path left() throws IOException {
        WriterProcess.flushed("tcp://localhost:" + broker.port(), spool, 0, 300).close();
        return forgotten();
    }

    /** Has the broker lose all messages, and those in the spool grow old; returns the folder of these. */
    private Path forgotten() throws IOException {
        broker.kill();
        broker.forget();
        broker.start();
        try (Stream<Path> found = Files.walk(spool)) {
            for (Path each : found.filter(file -> file.toString().endsWith(Spool.SUFFIX)).toList()) {
                Files.setLastModifiedTime(each, FileTime.from(Instant.now().minus(Duration.ofMinutes(2))));
            }
        }
        return folders().get(0);
    }

    private List<Path> folders() throws IOException {
        try (Stream<Path> found = Files.walk(spool, 2)) {
            return found.filter(each -> spool.relativize(each).getNameCount() == 2).toList();
        }
    }

    /** A broker that had saved the mark of 100 messages, and not the rest. */
    private void retainMark(Path left, Mosquitto at) throws Exception {
        Topic.retain(at.url(), "speck/sink/" + left.getFileName(), "100");
    }

    private SinkSettings settings(String url) {
        return new SinkSettings(Login.anonymous(url), PATIENCE).withSpool(spool.toString());
    }

    private MqttSink writer() throws InterruptedException {
        return new MqttSink(settings(broker.url()));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static List<String> texts(int from, int to) {
        return IntStream.range(from, to).mapToObj(number -> "m" + number).toList();
    }

    @Test
    void theMarkOfItsFormerAddressShowsThatTheBrokerIsTheSame() throws Exception {
        Path left = left();
        retainMark(left, broker);
        try (Topic topic = new Topic(broker.url(), "in/a"); MqttSink sink = writer()) {
            assertEquals(List.of(), topic.all(), "its messages are nobody's at first");
            Publishers.takeOverStranded(spool);
            assertEquals(texts(100, 300), topic.take(200));
            sink.flush();
            Await.until("one folder, its own", () -> folders().size() == 1 && !folders().contains(left));
        }
    }

    /** The engine runs on, and its job writes under the new address. */
    @Test
    void aPublisherWithoutWritersLeavesItsMessagesToTheOneOfTheNewAddress() throws Exception {
        try (CuttingProxy former = new CuttingProxy(broker.port())) {
            try (MqttSink sink = new MqttSink(settings(former.url()))) {
                for (int number = 0; number < 300; number++) {
                    sink.send("in/a", bytes("m" + number), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + number));
                }
                sink.flush();
            }
            former.refuse(true);
            former.cut();
            Path left = forgotten();
            retainMark(left, broker);
            try (Topic topic = new Topic(broker.url(), "in/a"); MqttSink sink = writer()) {
                Await.until("one folder, of the new address", () -> {
                    Publishers.takeOverStranded(spool);
                    return folders().size() == 1 && !folders().contains(left);
                });
                sink.flush();
                assertEquals(texts(100, 300), topic.take(200));
            }
        }
    }

    @Test
    void aBrokerWithoutTheMarkGetsNothingAndTheFolderStaysForAnotherProcess() throws Exception {
        Path left = left();
        try (Topic topic = new Topic(broker.url(), "in/a"); MqttSink sink = writer()) {
            Publishers.takeOverStranded(spool);
            sink.flush();
            assertEquals(List.of(), topic.all());
            assertEquals(List.of(left), SpoolFolder.abandoned(spool, Login.anonymous("tcp://localhost:" + broker.port()))
                    .stream().map(SpoolFolder::path).toList(), "it is not locked");
        }
    }

    /** Another broker, which may hold for this one what it forgets, has the mark of any of both. */
    @Test
    void theMarkAtABrokerWithABridgeProvesNothing() throws Exception {
        Path left = left();
        broker.close();
        try (Mosquitto other = Mosquitto.start(Files.createDirectories(folder.resolve("elsewhere")))) {
            broker = Mosquitto.start(folder, "connection bridge", "address 127.0.0.1:" + other.port(), "topic # both 1");
            retainMark(left, other);
            try (Topic marks = new Topic(broker.url(), "speck/sink/+"); MqttSink sink = writer()) {
                Await.until("the mark", () -> marks.all().contains("100"));
                Publishers.takeOverStranded(spool);
                sink.flush();
                assertEquals(2, folders().size());
            }
        }
    }

    /** It may be that of a process which is being restarted, with the rights that its messages need. */
    @Test
    void messagesThatWereJustLeftAreNotTakenOver() throws Exception {
        Path left = left();
        retainMark(left, broker);
        Path newest = Files.createFile(left.resolve("%019d%s".formatted(301, Spool.SUFFIX)));
        try (MqttSink sink = writer()) {
            Publishers.takeOverStranded(spool);
            sink.flush();
            assertEquals(2, folders().size());
            Files.delete(newest);
            Publishers.takeOverStranded(spool);
            Await.until("one folder", () -> folders().size() == 1);
        }
    }
}
