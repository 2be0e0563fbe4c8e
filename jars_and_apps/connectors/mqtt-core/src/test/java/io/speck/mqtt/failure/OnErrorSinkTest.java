package io.speck.mqtt.failure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.writer.RefusedMessage;
import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SinkSettings;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Results that brokers do not accept, at real Mosquittos with limits. */
@Timeout(60)
class OnErrorSinkTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);
    private static final int LARGE = 90_000;
    private static final byte[] JOB = "clean".getBytes(StandardCharsets.UTF_8);

    @TempDir
    Path folder;

    private static OnErrorSink sink(Mosquitto broker, String treatment, Mosquitto parking) throws InterruptedException {
        return sink(broker.url(), treatment, parking);
    }

    private static OnErrorSink sink(String url, String treatment, Mosquitto parking) throws InterruptedException {
        SinkSettings settings = new SinkSettings(Login.anonymous(url), LIMIT);
        OnError onError = OnError.of(treatment, parking == null ? null : "parked", "clean");
        return new OnErrorSink(new OnErrorSink.Settings(settings, onError,
                parking == null ? null : Login.anonymous(parking.url())));
    }

    private static void send(OnErrorSink sink, String topic, String payload) throws InterruptedException {
        sink.send(topic, bytes(payload), null, JOB, bytes("run-0-" + payload.length() + "-" + payload.hashCode()));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void sendAmongOthers(OnErrorSink sink, String large) throws InterruptedException {
        for (int i = 0; i < 40; i++) {
            send(sink, "out", i == 17 ? large : "result-" + i);
        }
        sink.flush();
    }

    private void isParkedWhole(String limit, String reason) throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder.resolve("sink"), limit);
                Mosquitto source = Mosquitto.start(folder.resolve("source"));
                Parked out = new Parked(broker.url(), "out"); Parked parked = new Parked(source.url(), "parked");
                OnErrorSink sink = sink(broker, "park", source)) {
            String large = "x".repeat(LARGE);
            sendAmongOthers(sink, large);
            Await.until("all others", () -> Set.copyOf(out.seen()).size() >= 39);
            Map<String, String> found = parked.take(1).get(0);
            assertEquals(large, found.get("payload"));
            assertEquals("out", found.get(LeftOut.SINK_TOPIC));
            assertTrue(found.get(LeftOut.ERROR).contains("job 'clean' to topic 'out' (90"), found::toString);
            assertTrue(found.get(LeftOut.ERROR).contains(reason), found::toString);
            assertEquals(List.of(0L, 1L, 39, 1),
                    List.of(sink.skipped(), sink.parked(), Set.copyOf(out.seen()).size(), parked.seen().size()));
        }
    }

    @Test
    void aResultBeyondTheAnnouncedPacketSizeIsParked() throws Exception {
        isParkedWhole("max_packet_size 20000", "maximum packet size of 20000");
    }

    @Test
    void aResultThatTheBrokerAnswersWithPacketTooLargeIsParked() throws Exception {
        isParkedWhole("message_size_limit 20000", "packet too large (reason 0x95)");
    }

    @Test
    void aResultAtWhichTheBrokerClosesTheConnectionIsParkedAndTheOthersArrive() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder.resolve("sink"));
                Mosquitto source = Mosquitto.start(folder.resolve("source")); CuttingProxy proxy = new CuttingProxy(broker.port());
                Parked out = new Parked(broker.url(), "out"); Parked parked = new Parked(source.url(), "parked");
                OnErrorSink sink = sink(proxy.url(), "park", source)) {
            proxy.cutAtPiecesAbove(1_000);
            sendAmongOthers(sink, "x".repeat(LARGE));
            assertEquals("x".repeat(LARGE), parked.take(1).get(0).get("payload"));
            assertTrue(parked.take(1).get(0).get(LeftOut.ERROR).contains("closes the connection at it"));
            assertEquals(List.of(1L, 39), List.of(sink.parked(), Set.copyOf(out.seen()).size()));
        }
    }

    /** The broker is killed soon after each start, as by a full disk or for want of memory: no message is the cause. */
    @Test
    void noResultIsParkedWhileTheBrokerIsKilledAgainAndAgain() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder.resolve("sink"));
                Mosquitto source = Mosquitto.start(folder.resolve("source"));
                CuttingProxy proxy = new CuttingProxy(broker.port());
                Parked out = new Parked(broker.url(), "out"); OnErrorSink sink = sink(proxy.url(), "park", source)) {
            proxy.dropFromPiecesAbove(1_000);
            send(sink, "out", "x".repeat(LARGE));
            sink.sendSoon();
            for (int round = 0; round < 8; round++) {
                int former = proxy.beginnings().size();
                Thread.sleep(300);
                proxy.cut();
                Await.until("the next connection", () -> proxy.beginnings().size() > former);
            }
            proxy.dropFromPiecesAbove(LARGE);
            proxy.cut();
            sink.flush();
            assertEquals(0L, sink.parked());
            assertEquals("x".repeat(LARGE), out.take(1).get(0).get("payload"));
        }
    }

    /** A task of Spark would hold its slot for as long as the parking broker is away. */
    @Test
    void anOfferingWriterWaitsForNoParkingBrokerAndAnotherOneParksItsResults() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder.resolve("sink"), "max_packet_size 20000");
                Mosquitto source = Mosquitto.start(folder.resolve("source"))) {
            Login parking = Login.anonymous(source.url());
            OnErrorSink.Settings settings = new OnErrorSink.Settings(
                    new SinkSettings(Login.anonymous(broker.url()), LIMIT), OnError.of("park", "parked", "clean"), parking);
            source.kill();
            List<RefusedMessage> unparked;
            try (OnErrorSink task = OnErrorSink.offering(settings, 1 << 20)) {
                task.offer("out", bytes("x".repeat(LARGE)), null, JOB, bytes("run-0-0-0"));
                task.offer("out/+", bytes("v"), null, JOB, bytes("run-0-0-1"));
                assertTimeoutPreemptively(Duration.ofSeconds(15), task::flushUnlessAway);
                unparked = task.takeUnparked();
                assertEquals(List.of(2, 0L), List.of(unparked.size(), task.parked()));
                assertEquals(List.of(), task.takeUnparked());
            }
            source.start();
            try (Parked parked = new Parked(source.url(), "parked");
                    OnErrorSink driver = OnErrorSink.offering(settings, 0)) {
                driver.park(unparked);
                driver.flush();
                assertEquals(Set.of("x".repeat(LARGE), "v"),
                        parked.take(2).stream().map(each -> each.get("payload")).collect(Collectors.toSet()));
                assertEquals(2, driver.parked());
            }
        }
    }

    @Test
    void aWriterParksItselfWhatItHasNoMemoryFor() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder.resolve("sink"), "max_packet_size 20000");
                Mosquitto source = Mosquitto.start(folder.resolve("source"))) {
            OnErrorSink.Settings settings = new OnErrorSink.Settings(new SinkSettings(Login.anonymous(broker.url()), LIMIT),
                    OnError.of("park", "parked", "clean"), Login.anonymous(source.url()));
            try (Parked parked = new Parked(source.url(), "parked");
                    OnErrorSink task = OnErrorSink.offering(settings, LARGE)) {
                task.offer("out", bytes("x".repeat(LARGE)), null, JOB, bytes("run-0-0-0"));
                task.flushUnlessAway();
                assertEquals(List.of(0, 1L), List.of(task.takeUnparked().size(), task.parked()));
                assertEquals(1, parked.take(1).size());
            }
        }
    }

    @Test
    void aResultThatCannotBeWrittenIsSkippedAndCounted() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder, "max_packet_size 20000");
                Parked out = new Parked(broker.url(), "out"); OnErrorSink sink = sink(broker, "skip", null)) {
            sendAmongOthers(sink, "x".repeat(LARGE));
            sink.send("out", bytes("v"), new byte[70_000], JOB, bytes("run-0-0-0"));
            send(sink, "out/+", "v");
            sink.flush();
            Await.until("all others", () -> Set.copyOf(out.seen()).size() >= 39);
            assertEquals(List.of(3L, 0L), List.of(sink.skipped(), sink.parked()));
        }
    }

    @Test
    void theJobFailsWithJobTopicSizeAndLimitByDefault() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder, "max_packet_size 20000");
                OnErrorSink sink = sink(broker, null, null)) {
            String fault = assertThrows(BrokerException.class,
                    () -> sendAmongOthers(sink, "x".repeat(LARGE))).getMessage();
            assertTrue(fault.contains("a message of job 'clean' to topic 'out' (900"), fault);
            assertTrue(fault.contains("maximum packet size of 20000 bytes"), fault);
            assertThrows(MqttException.class, () -> send(sink, "out/+", "v"));
        }
        try (Mosquitto broker = Mosquitto.start(folder.resolve("second")); OnErrorSink sink = sink(broker, "fail", null)) {
            assertThrows(InvalidSettingException.class, () -> send(sink, "out/+", "v"));
        }
    }

    private Mosquitto withoutRightTo(String... topics) throws IOException {
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x")); // Mosquitto reads it later
        Path rights = Files.writeString(folder.resolve("acl"),
                "topic readwrite #\ntopic deny " + String.join("\ntopic deny ", topics) + "\n");
        return Mosquitto.start(folder.resolve("guarded"), "acl_file " + rights);
    }

    @Test
    void aTopicWithoutTheRightToWriteFailsTheJobAndParksNothing() throws Exception {
        try (Mosquitto broker = withoutRightTo("out"); Mosquitto source = Mosquitto.start(folder.resolve("source"));
                Parked parked = new Parked(source.url(), "parked"); OnErrorSink sink = sink(broker, "park", source)) {
            String fault = assertThrows(BrokerException.class, () -> sendAmongOthers(sink, "small")).getMessage();
            assertTrue(fault.contains("not authorized") && fault.contains("'out'"), fault);
            assertEquals(List.of(0L, List.of()), List.of(sink.parked(), parked.seen()));
        }
    }

    @Test
    void aParkingTopicThatIsRefusedFailsTheJob() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder.resolve("sink"), "max_packet_size 20000");
                Mosquitto source = withoutRightTo("parked"); OnErrorSink sink = sink(broker, "park", source)) {
            String fault = assertThrows(BrokerException.class,
                    () -> sendAmongOthers(sink, "x".repeat(LARGE))).getMessage();
            assertTrue(fault.contains("'parked'") && fault.contains("not authorized"), fault);
        }
    }

    private void isParkedShortened(String limit, int least, int most) throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder, limit); Parked parked = new Parked(broker.url(), "parked");
                OnErrorSink sink = sink(broker, "park", broker)) {
            sendAmongOthers(sink, "x".repeat(LARGE));
            Map<String, String> found = parked.take(1).get(0);
            int length = found.get("payload").length();
            assertTrue(least <= length && length <= most, length + " bytes");
            assertEquals("x".repeat(length), found.get("payload"));
            assertEquals(Integer.toString(LARGE), found.get(LeftOut.SIZE));
            assertEquals(List.of(1L, 1), List.of(sink.parked(), parked.seen().size()));
        }
    }

    @Test
    void aParkingBrokerWithTheSameLimitGetsTheBeginning() throws Exception {
        isParkedShortened("max_packet_size 20000", 19_000, 20_000);
    }

    @Test
    void aParkingBrokerThatAnnouncesNoLimitGetsTheReasonAndTheSize() throws Exception {
        isParkedShortened("message_size_limit 20000", 0, 0);
    }

    @Test
    void aMessageThatFitsOnlyWithoutTheErrorIsParkedShortened() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder, "max_packet_size 20000");
                Parked parked = new Parked(broker.url(), "parked");
                LeftOut leftOut = new LeftOut(OnError.of("park", "parked", "clean"), new SinkSettings(Login.anonymous(broker.url()), LIMIT))) {
            leftOut.add("in", bytes("x".repeat(19_950)), "k", "IllegalStateException: no");
            leftOut.flush();
            Map<String, String> found = parked.take(1).get(0);
            assertEquals(List.of("19950", "k", "in"),
                    List.of(found.get(LeftOut.SIZE), found.get("key"), found.get(LeftOut.TOPIC)));
            assertTrue(found.get("payload").length() > 19_000, found::toString);
        }
    }
}
