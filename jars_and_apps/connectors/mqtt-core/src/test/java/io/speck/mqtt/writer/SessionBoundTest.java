package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.Unpooled;
import io.netty.handler.codec.mqtt.MqttMessageBuilders;
import io.netty.handler.codec.mqtt.MqttQoS;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The most that a session may hold, by the reports of its broker and the answers of its reader. */
class SessionBoundTest {
    private static final int LIMIT = 10_000;
    private final BackPressure pressure = new BackPressure(LIMIT);
    private long now;

    /** A broker that stores more than the limit, of which nothing waits for the session. */
    @BeforeEach
    void begin() {
        connect(50_000, 200_000);
    }

    private void connect(long stored, long received) {
        pressure.reset();
        receive("speck/session/b", "{\"topics\": [\"b/in\"]}");
        receive(BackPressure.STORED, Long.toString(stored));
        receive(BackPressure.RECEIVED, Long.toString(received));
    }

    private void receive(String topic, String text) {
        pressure.accept(MqttMessageBuilders.publish().topicName(topic).qos(MqttQoS.AT_MOST_ONCE)
                .payload(Unpooled.copiedBuffer(text, StandardCharsets.UTF_8)).build(), 0);
    }

    private static OutgoingMessage message() {
        return new OutgoingMessage(new Delivery(), "b/in", "b/in".getBytes(StandardCharsets.UTF_8), new byte[1000], null,
                null, null);
    }

    /** Sends a marker, and a message behind it; returns the marker. */
    private String mark() {
        now += TimeUnit.SECONDS.toNanos(11);
        List<OutgoingMessage> markers = pressure.markers("b/in", now);
        assertEquals(1, markers.size());
        pressure.add(message());
        return new String(markers.get(0).refused(-1, "").payload(), StandardCharsets.UTF_8);
    }

    private void answer(String marker) {
        receive("speck/drained/b", marker);
    }

    @Test
    void asMuchAsTheLimitMayFollowAMarkerThatWasAnswered() {
        assertFalse(pressure.admits(message()));
        answer(mark());
        int count = 0;
        while (pressure.admits(message())) {
            pressure.add(message());
            count++;
        }
        assertTrue(count > 5 && count < 10, count + " messages of 1,000 bytes");
    }

    @Test
    void whatOthersWriteCountsToo() {
        answer(mark());
        receive(BackPressure.RECEIVED, "209000");
        assertTrue(pressure.admits(message()));
        receive(BackPressure.RECEIVED, "211000");
        assertFalse(pressure.admits(message()));
    }

    @Test
    void theAnswerToAnEarlierMarkerCountsFromThatOne() {
        String first = mark();
        receive(BackPressure.RECEIVED, "290000");
        String second = mark();
        answer(first);
        assertFalse(pressure.admits(message()));
        answer(second);
        assertTrue(pressure.admits(message()));
    }

    @Test
    void anAnswerFromBeforeARestartSaysNothingOfTheNewCount() {
        String marker = mark();
        connect(50_000, 100);
        pressure.add(message());
        answer(marker);
        assertFalse(pressure.admits(message()));
    }

    @Test
    void aBrokerThatDoesNotReportWhatItReceivedIsJudgedByItsStore() {
        pressure.reset();
        receive("speck/session/b", "{\"topics\": [\"b/in\"]}");
        receive(BackPressure.STORED, "50000");
        answer(mark());
        assertFalse(pressure.admits(message()));
    }
}
