package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.Await;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
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
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A test of readers at a real Mosquitto whose connections are cut. */
abstract class CutReaderCase {
    static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    @TempDir
    Path folder;
    Mosquitto broker;
    CuttingProxy proxy;
    final MemoryJournal journal = new MemoryJournal();
    final List<AutoCloseable> opened = new ArrayList<>();

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

    SourceSettings settings() {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 32 << 20, null, -1, true,
                Duration.ofSeconds(20));
    }

    MqttSource open(long committed, long end) throws Exception {
        return open(settings(), committed, end);
    }

    MqttSource open(SourceSettings settings, long committed, long end) throws Exception {
        MqttSource source = new MqttSource(settings, journal);
        opened.add(source);
        source.open(committed, end);
        return source;
    }

    void publish(String... payloads) throws InterruptedException {
        publish(null, 0, payloads);
    }

    void publish(String job, int first, String... payloads) throws InterruptedException {
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

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String[] numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toArray(String[]::new);
    }

    /** Checks that the broker holds no message: a marker sent now is the first message of a new reader. */
    void assertNothingLeft(long offset) throws Exception {
        publish("marker");
        try (MqttSource next = new MqttSource(settings(), new MemoryJournal())) {
            next.open(offset, offset);
            Await.until("marker", () -> next.await(offset + 1, SECOND) > offset);
            assertEquals(List.of("marker"), Topic.texts(next.messages(offset, offset + 1)));
        }
    }

    /** Waits until the broker is known to have all acknowledgements: only the last record remains then. */
    void awaitCertain(MqttSource source, long offset) {
        Await.until("the broker has the acknowledgements up to " + offset, () -> {
            source.commit(offset);
            return journal.records.size() == 1;
        });
    }

    /** Cuts connections without DISCONNECT, as a kill would. */
    void crash() throws IOException {
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

    void stamped(String job, String sequence, String payload) throws InterruptedException {
        Topic.publishStamped(broker.url(), "in/a", job, sequence, payload);
    }

    void loseSession() throws InterruptedException {
        Connection.open(Login.anonymous(broker.url()), Session.temporary("reader"), new ConnectionListener() {},
                Duration.ofSeconds(5)).closeAndEndSession();
    }

    SourceSettings lenient() {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 1 << 20, null, -1, false,
                Duration.ofSeconds(20));
    }

    SourceSettings receiving(int maximum) {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", maximum, 32 << 20, null, -1, true,
                Duration.ofSeconds(20));
    }
}
