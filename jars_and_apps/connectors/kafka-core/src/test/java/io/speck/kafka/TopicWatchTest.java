package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.kafka.TopicWatch.Topic;
import io.speck.mqtt.BrokerException;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.Test;

class TopicWatchTest {
    private static final Topic FIRST = new Topic("1", 1);
    private static final Topic SECOND = new Topic("2", 1);

    private CompletableFuture<Topic> answer = CompletableFuture.completedFuture(FIRST);
    private final TopicWatch watch = new TopicWatch(Recorded.settings("kafka://k:9092", "s"), () -> answer, () -> { });

    /** The brokers of a cluster do not learn of a topic at the same time. */
    @Test
    void aFormerTopicIsNotTakenForANewOne() throws InterruptedException {
        watch.reads(watch.ask());
        answer = CompletableFuture.completedFuture(SECOND);
        assertTrue(watch.isAnother(watch.ask()));
        watch.reads(watch.ask());
        answer = CompletableFuture.completedFuture(FIRST);
        assertEquals(SECOND, watch.ask());
        assertFalse(watch.isAnother(watch.ask()));
    }

    @Test
    void aBrokerThatDoesNotAnswerIsNoRefusal() throws InterruptedException {
        watch.reads(watch.ask());
        answer = CompletableFuture.failedFuture(new TimeoutException("late"));
        assertFalse(assertThrows(BrokerException.class, watch::ask).refused());
        answer = CompletableFuture.failedFuture(new UnknownTopicOrPartitionException("none"));
        assertTrue(assertThrows(BrokerException.class, watch::ask).refused());
        assertEquals(FIRST, watch.look());
    }
}
