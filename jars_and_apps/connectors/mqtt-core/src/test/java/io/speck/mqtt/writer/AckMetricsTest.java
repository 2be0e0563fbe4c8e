package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.writer.AckMetrics;
import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.BrokerCase;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.reader.MqttSource;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The counts of sources and sinks at a real Mosquitto, behind a proxy that delays and stalls. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class AckMetricsTest extends BrokerCase {
    private static final int MESSAGES = 20;

    /** Its login is its own, so that it has no connection, and no figures, of an earlier test at the same port. */
    private static MqttSink sink(CuttingProxy proxy) throws InterruptedException {
        String user = UUID.randomUUID().toString();
        Login login = new Login(BrokerAddress.parse(proxy.url()), user, null, TlsFiles.NONE);
        return new MqttSink(new SinkSettings(login, Duration.ofSeconds(60)));
    }

    @Test
    void bytesAreThoseOfTopicsAndPayloads() throws Exception {
        SourceSettings settings = new SourceSettings(Login.anonymous(broker.url()), "reader", "grüße/#", 65535, 32 << 20,
                null, -1, true, Duration.ofSeconds(20));
        try (MqttSource source = new MqttSource(settings, new MemoryJournal());
                MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), Duration.ofSeconds(60)))) {
            source.open(0, 0);
            long expected = 0;
            long sent = 0;
            for (int i = 0; i < 3_000; i++) {
                String topic = "grüße/" + i % 7;
                byte[] payload = new byte[i % 50];
                sent += sink.send(topic, payload, null, null, null);
                expected += topic.getBytes(StandardCharsets.UTF_8).length + payload.length;
            }
            sink.flush();
            Await.until("all", () -> source.await(3_000, TimeUnit.SECONDS.toNanos(1)) >= 3_000);
            assertEquals(expected, sent);
            assertEquals(expected, source.metrics().receivedBytes());
            assertEquals(3_000, source.metrics().receivedHere());
        }
    }

    private AckMetrics delayed(long millis) throws Exception {
        try (CuttingProxy proxy = new CuttingProxy(broker.port()); MqttSink sink = sink(proxy)) {
            proxy.delay(millis);
            for (int i = 0; i < MESSAGES; i++) {
                sink.send("out", new byte[10], null, null, null);
                sink.flush();
            }
            AckMetrics acks = sink.acks();
            assertEquals(proxy.url(), acks.broker());
            return acks;
        }
    }

    @Test
    void acknowledgementTimesFollowTheDelay() throws Exception {
        AckMetrics direct = delayed(0);
        AckMetrics near = delayed(20);
        AckMetrics far = delayed(100);
        assertTrue(direct.leastMillis() > 0 && direct.leastMillis() < near.leastMillis(), direct + " " + near);
        assertTrue(near.leastMillis() >= 20 && near.leastMillis() < far.leastMillis(), near + " " + far);
        assertTrue(far.leastMillis() >= 100 && far.leastMillis() <= far.medianMillis(), far.toString());
        assertTrue(near.medianMillis() < far.medianMillis() && far.windowFull() == 0, near + " " + far);
    }

    @Test
    void aStalledBrokerFillsTheWindow() throws Exception {
        try (CuttingProxy proxy = new CuttingProxy(broker.port()); MqttSink sink = sink(proxy)) {
            proxy.stallAfter(0);
            for (int i = 0; i < 2_000; i++) {
                sink.send("out", new byte[10], null, null, null);
            }
            sink.sendSoon();
            Await.until("a full window", () -> sink.acks().windowFull() > 0.5);
            assertEquals(-1, sink.acks().leastMillis());
            proxy.resume();
            sink.flush();
            double share = sink.acks().windowFull();
            Await.until("the window is free", () -> sink.acks().windowFull() < share);
            assertTrue(sink.acks().medianMillis() > 0, sink.acks().toString());
        }
    }
}
