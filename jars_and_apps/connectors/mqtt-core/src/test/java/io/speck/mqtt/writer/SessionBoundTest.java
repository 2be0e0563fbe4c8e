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

    private List<OutgoingMessage> markersAfter(long seconds) {
        now += TimeUnit.SECONDS.toNanos(seconds);
        return pressure.markers("b/in", now);
    }

    /** Sends a marker, and a message behind it; returns the marker. */
    private String mark() {
        List<OutgoingMessage> markers = markersAfter(11);
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
    void aRejectedMarkerHoldsNobodyAndIsTriedAgain() {
        assertTrue(pressure.acknowledged(markersAfter(0).get(0), 0x87));
        assertTrue(pressure.admits(message()));
        assertEquals(List.of(), markersAfter(59));
        OutgoingMessage again = markersAfter(2).get(0);
        assertTrue(pressure.admits(message()), "until the broker accepts it");
        pressure.acknowledged(again, 0);
        assertFalse(pressure.admits(message()), "writers wait again");
        answer(mark());
        assertTrue(pressure.admits(message()));
    }

    /** A broker may close the connection at it. */
    @Test
    void aRejectedMarkerIsNotTriedAgainAtOnceOnAnotherConnection() {
        pressure.acknowledged(markersAfter(0).get(0), BackPressure.REJECTED);
        connect(50_000, 200_000);
        assertTrue(pressure.admits(message()));
        assertEquals(List.of(), markersAfter(59));
        assertEquals(1, markersAfter(2).size());
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
