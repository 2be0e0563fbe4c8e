package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.Login;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.Topic;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A batch that was not committed, or not acknowledged, when its reader ended. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class UncommittedBatchTest extends CutReaderCase {
    @Test
    void anUncommittedBatchComesAgainAfterARestart() throws Exception {
        MqttSource first = open(0, 0);
        publish("x", "x", "y", "x", "z");
        assertEquals(List.of("x", "x"), Batch.next(first, 0, 2));
        first.commit(2);
        List<String> batch = Batch.next(first, 2, 4);
        crash();
        publish("x");
        MqttSource second = open(2, 4);
        second.awaitWhole();
        assertEquals(batch, Topic.texts(second.messages(2, 4)));
        assertEquals(1, second.recordedPartitions(2));
        second.commit(4);
        assertEquals(List.of("z", "x"), Batch.next(second, 4, 6));
        second.commit(6);
        second.close();
        assertNothingLeft(6);
    }

    @Test
    void lostAcknowledgementsOfACommittedBatchAreSentAgain() throws Exception {
        MqttSource first = open(0, 0);
        publish("x", "x", "y");
        Batch.next(first, 0, 3);
        proxy.swallow(true);
        first.commit(3);
        crash();
        publish("x", "x", "y");
        MqttSource second = open(3, 3);
        assertEquals(List.of("x", "x", "y"), Batch.next(second, 3, 6));
        assertEquals(3, second.metrics().redelivered());
        second.commit(6);
        second.close();
        assertNothingLeft(6);
    }

    @Test
    void aBatchAcknowledgedInPartIsCompleted() throws Exception {
        MqttSource first = open(receiving(5), 0, 0);
        publish("x", "x", "x", "x", "x", "x", "x");
        Batch.next(first, 0, 5);
        proxy.swallowAfter(2 * 4);
        first.commit(5);
        Await.until("two more, for two acknowledgements", () -> first.await(7, SECOND) == 7);
        crash();
        MqttSource second = open(5, 5);
        assertEquals(List.of("x", "x"), Batch.next(second, 5, 7));
        assertEquals(3, second.metrics().redelivered());
        second.commit(7);
        second.close();
        assertNothingLeft(7);
    }

    @Test
    void cutsWhileTheBrokerRepeatsLoseAndRepeatNothing() throws Exception {
        MqttSource first = open(0, 0);
        String[] alike = IntStream.range(0, 300).mapToObj(i -> "v" + i % 3).toArray(String[]::new);
        publish(alike);
        Batch.next(first, 0, 100);
        proxy.swallow(true);
        first.commit(100);
        List<String> batch = Batch.next(first, 100, 200);
        crash();
        proxy.cutAfter(100L, 900L, 1500L, 2000L);
        MqttSource second = open(100, 200);
        second.awaitWhole();
        assertEquals(batch, Topic.texts(second.messages(100, 200)));
        second.commit(200);
        assertEquals(List.of(alike).subList(200, 300), Batch.next(second, 200, 300));
        awaitCertain(second, 300);
        assertEquals(300, second.metrics().received());
        second.close();
        assertNothingLeft(300);
    }

    @Test
    void recordsDoNotPileUpOverRestarts() throws Exception {
        for (int round = 0; round < 4; round++) {
            MqttSource source = open(round, round);
            publish("x");
            Batch.next(source, round, round + 1);
            source.commit(round + 1);
            crash();
            opened.clear();
        }
        assertTrue(journal.records.size() <= 3, "records: " + journal.records.keySet());
    }

    @Test
    void aBatchThatNeverReachedTheEngineIsDropped() throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b", "c");
        Batch.next(first, 0, 2);
        crash();
        MqttSource second = open(0, 0);
        assertEquals(List.of("a", "b", "c"), Batch.next(second, 0, 3));
    }

    @Test
    void anUncommittedBatchHasItsStampsAgainAfterARestart() throws Exception {
        MqttSource first = open(0, 0);
        stamped("job", "r/0/0/5.0", "a");
        publish("b");
        Batch.next(first, 0, 2);
        crash();
        MqttSource second = open(0, 2);
        second.awaitWhole();
        assertEquals("r/0/0/5.0", second.messages(0, 2).get(0).stamp().sequence());
        assertEquals(null, second.messages(0, 2).get(1).stamp());
    }

    private SourceSettings elsewhere(String broker) {
        return elsewhere(Login.anonymous(broker));
    }

    private SourceSettings elsewhere(Login login) {
        return new SourceSettings(login, "other", "elsewhere", 65535, 1 << 20, null, -1, false,
                Duration.ofSeconds(20));
    }

    @Test
    void anUncommittedBatchOfAnotherSessionIsCompletedThere() throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b", "c");
        Batch.next(first, 0, 2);
        crash();
        MqttSource second = open(elsewhere(proxy.url()), 0, 2);
        Topic.publish(broker.url(), "elsewhere", List.of("d"));
        second.awaitWhole();
        assertEquals(List.of("a", "b"), Topic.texts(second.messages(0, 2)));
        second.commit(2);
        assertEquals(List.of("d"), Batch.next(second, 2, 3));
        assertEquals(Map.of(), second.metrics().lostMessages());
        second.close();
        MqttSource left = open(2, 2); // what had not been in the batch is still there, and nothing else
        assertEquals(List.of("c"), Batch.next(left, 2, 3));
    }

    @Test
    void anUncommittedBatchAtAnotherBrokerIsCompletedThereWithoutTheLoginOfThePresentOne(@TempDir Path other)
            throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b");
        Batch.next(first, 0, 2);
        crash();
        try (Mosquitto second = Mosquitto.start(other)) {
            Login login = new Login(BrokerAddress.parse(second.url()), "user", null, TlsFiles.NONE);
            MqttSource source = open(elsewhere(login), 0, 2);
            source.awaitWhole();
            assertEquals(List.of("a", "b"), Topic.texts(source.messages(0, 2)));
            source.commit(2);
            source.close();
        }
        assertNothingLeft(2);
    }

    @Test
    void anUncommittedBatchOfASessionThatIsGoneLeavesItsOffsetsUnused() throws Exception {
        MqttSource first = open(0, 0);
        publish("a", "b");
        Batch.next(first, 0, 2);
        crash();
        loseSession();
        MqttSource second = open(elsewhere(proxy.url()), 0, 2);
        second.awaitWhole();
        assertEquals(List.of(), second.messages(0, 2));
        assertEquals(Map.of("batchGivenUp", 2L), second.metrics().lostMessages());
        Topic.publish(broker.url(), "elsewhere", List.of("c", "d"));
        second.commit(2);
        assertEquals(List.of("c", "d"), Batch.next(second, 2, 4));
    }

    @Test
    void aStallAmidTheRedeliveryLosesNothing() throws Exception {
        MqttSource first = open(0, 0);
        publish(numbers(0, 300));
        List<String> batch = Batch.next(first, 0, 300);
        crash();
        proxy.stallAfter(3000L);
        SourceSettings hasty = new SourceSettings(Login.anonymous(proxy.url()), "reader", "in/#", 65535, 32 << 20, null,
                -1, false, Duration.ofSeconds(1));
        MqttSource second = open(hasty, 0, 300);
        Thread resuming = new Thread(() -> {
            try {
                TimeUnit.SECONDS.sleep(4); // longer than the time-out
                proxy.resume();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        resuming.start();
        second.awaitWhole();
        assertEquals(batch, Topic.texts(second.messages(0, 300)));
        assertEquals(Map.of(), second.metrics().lostMessages());
        resuming.join();
    }

    @Test
    void whatABatchThatWasGivenUpHeldIsReturnedWhenItComesAgain() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 0, "a", "b", "c");
        Batch.next(first, 0, 1);
        first.commit(1);
        Batch.next(first, 1, 3);
        crash();
        loseSession();
        SourceSettings other = new SourceSettings(Login.anonymous(proxy.url()), "other", "in/#", 65535, 1 << 20, null,
                -1, false, Duration.ofSeconds(20));
        MqttSource second = open(other, 1, 3);
        publish("job", 0, "a", "b", "c", "d");
        assertEquals(List.of("b", "c", "d"), Batch.next(second, 3, 6));
    }
}
