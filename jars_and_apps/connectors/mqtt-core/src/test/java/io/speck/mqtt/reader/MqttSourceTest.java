package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.Topic;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Reads from a real Mosquitto whose connections are cut. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MqttSourceTest extends CutReaderCase {
    @Test
    void messagesComeInOrderUnderIncreasingOffsets() throws Exception {
        MqttSource source = open(0, 0);
        publish(numbers(0, 1000));
        assertEquals(List.of(numbers(0, 600)), Batch.next(source, 0, 600));
        source.commit(600);
        assertEquals(List.of(numbers(600, 1000)), Batch.next(source, 600, 1000));
        source.commit(1000);
        source.close();
        assertNothingLeft(1000);
    }

    @Test
    void unacknowledgedMessagesAreNotReturnedAgainAfterACut() throws Exception {
        MqttSource source = open(0, 0);
        publish("same", "same", "a", "b");
        assertEquals(List.of("same", "same"), Batch.next(source, 0, 2));
        proxy.cut();
        publish("same", "c");
        Await.until("reconnected", () -> source.metrics().reconnections() == 1);
        source.commit(2);
        assertEquals(List.of("a", "b", "same", "c"), Batch.next(source, 2, 6));
        source.commit(6);
        assertEquals(6, source.metrics().received());
        source.close();
        assertNothingLeft(6);
    }

    @Test
    void aCommitWhileTheConnectionIsAwayReachesTheBrokerLater() throws Exception {
        MqttSource source = open(0, 0);
        publish("a", "a", "b");
        Batch.next(source, 0, 3);
        proxy.refuse(true);
        proxy.cut();
        Await.until("noticed", () -> !source.metrics().connected());
        source.commit(3);
        proxy.refuse(false);
        publish("a");
        assertEquals(List.of("a"), Batch.next(source, 3, 4));
        assertEquals(3, source.metrics().redelivered());
        source.commit(4);
        source.close();
        assertNothingLeft(4);
    }

    @Test
    void manyCutsLoseAndRepeatNothing() throws Exception {
        MqttSource source = open(0, 0);
        List<String> seen = new ArrayList<>();
        for (int round = 0; round < 5; round++) {
            publish(numbers(200 * round, 200 * (round + 1)));
            if (round % 2 == 0) {
                proxy.cut();
            }
            for (long start = 200L * round; start < 200L * (round + 1); start += 50) {
                seen.addAll(Batch.next(source, start, start + 50));
                source.commit(start + 50);
            }
        }
        assertEquals(List.of(numbers(0, 1000)), seen);
        awaitCertain(source, 1000);
        source.close();
        assertNothingLeft(1000);
    }

    @Test
    void messagesSentToTheCreatorOfTheSessionAreNew() throws Exception {
        AtomicInteger seen = new AtomicInteger();
        Connection maker = Connection.open(Login.anonymous(broker.url()), Session.persistent("reader", 65535),
                new ConnectionListener() {
                    @Override
                    public void published(Connection connection, MqttPublishMessage message) {
                        seen.incrementAndGet();
                    }
                }, Duration.ofSeconds(5));
        maker.subscribe(List.of("in/#"), Duration.ofSeconds(5));
        publish("a", "a", "b");
        Await.until("all are under way", () -> seen.get() == 3);
        maker.close();
        publish("a");
        MqttSource source = open(0, 0);
        assertEquals(List.of("a", "a", "b", "a"), Batch.next(source, 0, 4));
        assertEquals(0, source.metrics().redelivered());
        source.commit(4);
        source.close();
        assertNothingLeft(4);
    }

    @Test
    void aLostSessionIsAnError() throws Exception {
        MqttSource first = open(0, 0);
        publish("a");
        Batch.next(first, 0, 1);
        crash();
        loseSession();
        DataLossException lost = assertThrows(DataLossException.class, () -> open(0, 1));
        assertTrue(lost.getMessage().contains("reader") && lost.getMessage().contains(proxy.url()), lost.getMessage());
    }

    @Test
    void aLostSessionIsToleratedIfConfigured() throws Exception {
        MqttSource first = open(0, 0);
        publish("a");
        Batch.next(first, 0, 1);
        crash();
        loseSession();
        MqttSource second = open(lenient(), 0, 1);
        second.awaitWhole();
        assertEquals(List.of(), Topic.texts(second.messages(0, 1)));
        second.commit(1);
        publish("b");
        assertEquals(List.of("b"), Batch.next(second, 1, 2));
    }

    @Test
    void recordsDoNotPileUpWhenASessionIsLostWithUnacknowledgedMessages() throws Exception {
        MqttSource source = open(lenient(), 0, 0);
        publish("a", "b");
        Batch.next(source, 0, 1);
        proxy.refuse(true);
        proxy.cut();
        Await.until("noticed", () -> !source.metrics().connected());
        loseSession();
        proxy.refuse(false);
        Await.until("reconnected", () -> source.metrics().reconnections() == 1);
        source.commit(1);
        publish("c", "d");
        assertEquals(List.of("b", "c"), Batch.next(source, 1, 3));
        source.commit(3);
        assertEquals(List.of("d"), Batch.next(source, 3, 4));
        awaitCertain(source, 4);
    }

    @Test
    void theBrokerMayRestart() throws Exception {
        MqttSource source = open(0, 0);
        publish("a", "b", "c");
        Batch.next(source, 0, 2);
        source.commit(2);
        broker.stop();
        Await.until("noticed", () -> !source.metrics().connected());
        broker.start();
        publish("d");
        assertEquals(List.of("c", "d"), Batch.next(source, 2, 4));
        source.commit(4);
        source.close();
        assertNothingLeft(4);
    }

    @Test
    void theFenceEndsAnOlderAttempt() throws Exception {
        MqttSource older = open(fenced(1), 0, 0);
        fence(2);
        MqttSource newer = open(fenced(2), 0, 0);
        TakenOverException end = assertThrows(TakenOverException.class, () -> {
            while (true) {
                older.await(1, SECOND);
            }
        });
        assertTrue(end.getMessage().contains("attempt 2"), end.getMessage());
        publish("a");
        assertEquals(List.of("a"), Batch.next(newer, 0, 1));
        assertThrows(TakenOverException.class, () -> open(fenced(1), 0, 0));
    }

    private SourceSettings fenced(long attempt) {
        return new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 32 << 20, "fence/reader",
                attempt, true, Duration.ofSeconds(20));
    }

    private void fence(int attempt) throws Exception {
        Topic.retain(broker.url(), "fence/reader", "{\"attempt\": " + attempt + "}");
    }

    @Test
    void twoCopiesWithoutAFenceDoNotFightForEver() throws Exception {
        MqttSource one = open(0, 0);
        MqttSource other = open(new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 32 << 20,
                null, -1, true, Duration.ofSeconds(20)), 0, 0);
        List<MqttSource> ended = new ArrayList<>();
        Await.until("one ends", () -> {
            for (MqttSource each : List.of(one, other)) {
                try {
                    each.await(1, SECOND / 20);
                } catch (TakenOverException e) {
                    ended.add(each);
                }
            }
            return !ended.isEmpty();
        });
        MqttSource survivor = ended.contains(one) ? other : one;
        publish("a");
        assertEquals(List.of("a"), Batch.next(survivor, 0, 1));
    }

    @Test
    void theReceiveMaximumHoldsTheBrokerBack() throws Exception {
        MqttSource source = open(receiving(10), 0, 0);
        publish(numbers(0, 25));
        assertEquals(10, source.await(25, SECOND));
        Batch.next(source, 0, 10);
        source.commit(10);
        assertEquals(List.of(numbers(10, 20)), Batch.next(source, 10, 20));
    }

    @Test
    void aHundredThousandMessagesPassThroughASmallBuffer() throws Exception {
        SourceSettings small = new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 1 << 20,
                null, -1, true, Duration.ofSeconds(20));
        MqttSource source = open(small, 0, 0);
        publish(numbers(0, 100_000));
        assertTrue(source.metrics().queued() < 100_000, "reading pauses");
        long start = 0;
        while (start < 100_000) {
            long end = source.await(start + 1, SECOND);
            source.close(start, end, 1);
            List<String> texts = Topic.texts(source.messages(start, end));
            for (int i = 0; i < texts.size(); i++) {
                assertEquals(Long.toString(start + i), texts.get(i));
            }
            source.commit(end);
            start = end;
        }
        awaitCertain(source, 100_000);
    }

    @Test
    void aBrokerOutOfReachIsNamed() {
        SourceSettings nowhere = new SourceSettings(Login.anonymous("tcp://127.0.0.1:1"), "reader", "in", 10, 1 << 20,
                null, -1, true, Duration.ofMillis(300));
        BrokerException fault = assertThrows(BrokerException.class, () -> open(nowhere, 0, 0));
        assertTrue(fault.getMessage().contains("tcp://127.0.0.1:1"), fault.getMessage());
    }
}
