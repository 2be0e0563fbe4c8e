package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.Await;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.Login;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.Topic;
import io.speck.mqtt.Wire;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.ResendRequest;
import io.speck.mqtt.net.Session;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Results that a real Mosquitto retains, in the order in which they were written, whatever is sent again. */
@Timeout(60)
class RetainedResultsTest {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final byte[] JOB = "job".getBytes(StandardCharsets.UTF_8);

    @TempDir
    Path folder;
    private int sent;

    private static MqttSink sink(String url, boolean retain) throws InterruptedException {
        return new MqttSink(new SinkSettings(Login.anonymous(url), PATIENCE, retain));
    }

    private void send(MqttSink sink, String topic, String payload) throws InterruptedException {
        byte[] sequence = ("r/0/0/" + sent++).getBytes(StandardCharsets.UTF_8);
        sink.send(topic, payload.getBytes(StandardCharsets.UTF_8), null, JOB, sequence);
    }

    /** The retained messages below a topic, of a subscriber that comes now. */
    private static Map<String, String> retained(String url) throws InterruptedException {
        Map<String, String> found = new ConcurrentHashMap<>();
        Connection reader = Connection.open(Login.anonymous(url), Session.temporary("late-" + UUID.randomUUID()),
                new ConnectionListener() {
                    @Override
                    public void published(Connection from, MqttPublishMessage message) {
                        assertTrue(message.fixedHeader().isRetain());
                        found.put(message.variableHeader().topicName(), message.payload().toString(StandardCharsets.UTF_8));
                    }
                }, PATIENCE);
        reader.subscribe(List.of("out/#"), PATIENCE);
        Thread.sleep(200);
        reader.closeAndEndSession();
        return new TreeMap<>(found);
    }

    @Test
    void aLateSubscriberGetsTheLastResultOfEachTopic() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder); MqttSink sink = sink(broker.url(), true);
                MqttSink other = sink(broker.url(), false)) {
            for (int i = 0; i < 100; i++) {
                send(sink, "out/" + i % 2, "result-" + i);
            }
            send(other, "out/other", "not retained");
            sink.flush();
            other.flush();
            assertEquals(Map.of("out/0", "result-98", "out/1", "result-99"), retained(broker.url()));
        }
    }

    @Test
    void aRepetitionForALostSessionReplacesNoNewerResult() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder); CuttingProxy proxy = new CuttingProxy(broker.port());
                Wire out = new Wire(broker.url(), "out/1"); MqttSink sink = sink(proxy.url(), true)) {
            send(sink, "out/1", "old");
            sink.flush();
            proxy.stallAfter(0); // answers do not come, so that the newer one is in flight when the older one is requested
            send(sink, "out/1", "new");
            sink.sendSoon();
            out.take(2);
            Topic.retain(broker.url(), ResendRequest.TOPICS + "lost", "out/#");
            proxy.resume();
            out.take(3);
            sink.flush();
            assertEquals(List.of("old", "new", "old"), out.take(3).stream().map(Wire.Published::text).toList().subList(0, 3));
            assertEquals(Map.of("out/1", "new"), retained(broker.url()));
        }
    }

    @Test
    void aRepetitionForALostSessionReplacesNoResultOfAnotherProcess() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder); Wire out = new Wire(broker.url(), "out/1");
                MqttSink sink = sink(broker.url(), true)) {
            send(sink, "out/1", "old");
            sink.flush();
            Topic.retain(broker.url(), "out/1", "of the job's next place");
            Topic.retain(broker.url(), ResendRequest.TOPICS + "lost", "out/#");
            out.take(3);
            sink.flush();
            assertEquals(Map.of("out/1", "of the job's next place"), retained(broker.url()));
        }
    }

    @Test
    void aBrokerThatLostAllRetainsTheNewestAgain() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder); MqttSink sink = sink(broker.url(), true)) {
            for (String each : IntStream.range(0, 50).mapToObj(Integer::toString).toList()) {
                send(sink, "out/1", each);
            }
            sink.flush();
            broker.kill();
            broker.forget();
            broker.start();
            Await.until("retained again", () -> retained(broker.url()).equals(Map.of("out/1", "49")));
        }
    }

    @Test
    void aBrokerThatLostAllRetainsTheNewestAgainIfAReaderAsksFirst() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder); CuttingProxy proxy = new CuttingProxy(broker.port());
                MqttSink sink = sink(proxy.url(), true)) {
            send(sink, "out/1", "a");
            sink.flush();
            proxy.refuse(true);
            proxy.cut();
            broker.kill();
            broker.forget();
            broker.start();
            Topic.retain(broker.url(), ResendRequest.TOPICS + "lost", "out/#");
            proxy.refuse(false);
            Await.until("retained again", () -> retained(broker.url()).equals(Map.of("out/1", "a")));
        }
    }

    @Test
    void aRepetitionOfAFormerProcessForALostSessionReplacesNoNewerResult() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder); Wire out = new Wire(broker.url(), "out/1")) {
            SinkSettings settings = new SinkSettings(Login.anonymous(broker.url()), PATIENCE, true)
                    .withSpool(folder.resolve("spool").toString());
            MqttSink former = new MqttSink(settings);
            send(former, "out/1", "old");
            former.flush();
            Publishers.closeAll(); // as a process that stops: it leaves its messages, and its mark at the broker
            Topic.retain(broker.url(), "out/1", "of the job's next place");
            Topic.retain(broker.url(), ResendRequest.TOPICS + "lost", "out/#");
            try (MqttSink sink = new MqttSink(settings)) {
                out.take(3);
                sink.flush();
                assertEquals(Map.of("out/1", "of the job's next place"), retained(broker.url()));
            }
        }
    }

    @Test
    void aReaderWhoseSessionIsNewGetsTheRetainedResultOnceAndAnOlderReaderNotAgain() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder); MqttSink sink = sink(broker.url(), true);
                Topic early = new Topic(broker.url(), "out/1")) {
            send(sink, "out/1", "a");
            send(sink, "out/1", "b");
            sink.flush();
            assertEquals(List.of("a", "b"), early.take(2));
            Topic.session(broker.url(), "late", "out/1");
            send(sink, "out/1", "c");
            sink.flush();
            assertEquals(List.of("b", "c"), Topic.drain(broker.url(), "late", "out/1"));
            assertEquals("c", early.take(3).get(2));
        }
    }
}
