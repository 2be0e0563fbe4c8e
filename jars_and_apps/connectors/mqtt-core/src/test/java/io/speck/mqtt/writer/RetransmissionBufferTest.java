package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.writer.SinkMetrics;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Bounds the messages held for retransmission. */
class RetransmissionBufferTest {
    @Test
    void theBufferIsBoundedInTimeAndMemory() {
        byte[] job = bytes("held");
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 10_000);
        for (int i = 0; i < 100; i++) {
            buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, job, bytes("r/0/0/" + i)));
        }
        buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, null, null));
        assertEquals(100, buffer.lastNumber(), "a message without a stamp is not held");
        List<OutgoingMessage> held = buffer.again(message -> true);
        assertTrue(held.size() > 10 && held.size() < 20, held.size() + " messages");
        assertEquals(100, held.get(held.size() - 1).deliveryNumber);
        assertEquals(100 - held.size(), SinkMetrics.of("held").retainedDropped());
        assertEquals(List.of(), buffer.again(message -> true), "they are being sent again");
        assertEquals(100 - held.size(), buffer.confirmedNumber());
        buffer.connected(0);
        buffer.add(held.get(0));
        assertEquals(101 - held.size(), buffer.confirmedNumber());
        held.forEach(buffer::add);
        assertEquals(100, buffer.confirmedNumber());
        for (int second = 1; second <= 11; second++) {
            assertFalse(buffer.isEmpty());
            buffer.answered(TimeUnit.SECONDS.toNanos(second));
        }
        assertTrue(buffer.isEmpty());
        assertEquals(100 - held.size(), SinkMetrics.of("held").retainedDropped(), "one that was held for long enough is not counted");
    }

    @Test
    void aMessageThatIsRefusedWhenItIsSentAgainIsCountedOnce() {
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 10_000);
        buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[1], null, bytes("refused"), bytes("r/0/0/0")));
        OutgoingMessage again = buffer.again(message -> true).get(0);
        buffer.drop(again);
        buffer.drop(again);
        assertTrue(buffer.isEmpty());
        assertEquals(1, SinkMetrics.of("refused").retainedDropped());
    }

    /** Each of the processes that end soon hands on what it has taken over: in the end, none had the memory for that. */
    @Test
    void messagesThatWereTakenOverAreBoundedOnceTheBrokerHasThem() {
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 10_000);
        List<OutgoingMessage> found = new ArrayList<>();
        for (int number = 0; number < 200; number++) {
            found.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, bytes("taken"),
                    bytes("r/0/0/" + number)));
        }
        found.forEach(buffer::takeOver);
        assertEquals(200, SinkMetrics.of("taken").retained(), "the broker may lack all of them");
        found.subList(1, 200).forEach(buffer::confirmed);
        assertEquals(200, SinkMetrics.of("taken").retained(), "the broker may lack the first one");
        buffer.confirmed(found.get(0));
        long kept = SinkMetrics.of("taken").retained();
        assertTrue(kept > 60 && kept < 80, kept + " messages of 40 KB in all");
        assertEquals(200 - kept, SinkMetrics.of("taken").retainedDropped());
        assertEquals(found.subList((int) (200 - kept), 200), buffer.again(each -> true));
    }

    @Test
    void aSmallProcessRetainsLess() {
        assertEquals(8, RetransmissionBuffer.defaultMegabytes(128L << 20));
        assertEquals(16, RetransmissionBuffer.defaultMegabytes(600L << 20));
    }

    @Test
    void messagesAgeOnlyBetweenAnswersOfTheBroker() {
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 10_000);
        buffer.connected(0);
        buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, bytes("job"), bytes("r/0/0/0")));
        buffer.answered(TimeUnit.SECONDS.toNanos(3_000)); // stalled for most of this time
        buffer.connected(TimeUnit.SECONDS.toNanos(6_000));
        buffer.answered(TimeUnit.SECONDS.toNanos(6_001));
        assertFalse(buffer.isEmpty());
    }

    @Test
    void theMessagesThatTheBrokerMayLoseAreCountedByJob() {
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 1 << 20);
        buffer.connected(0);
        for (int number = 0; number < 6; number++) {
            buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null,
                    bytes(number % 3 == 0 ? "kept-a" : "kept-b"), bytes("r/0/0/" + number)));
        }
        assertEquals(List.of(2L, 4L), List.of(SinkMetrics.of("kept-a").retained(), SinkMetrics.of("kept-b").retained()));
        buffer.drop(buffer.again(each -> true).get(0));
        assertEquals(1, SinkMetrics.of("kept-a").retained());
        buffer.end();
        assertEquals(List.of(0L, 0L), List.of(SinkMetrics.of("kept-a").retained(), SinkMetrics.of("kept-b").retained()));
    }

    @Test
    void nothingIsHeldForZeroSeconds() {
        RetransmissionBuffer buffer = new RetransmissionBuffer(0, 10_000);
        buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, bytes("job"), bytes("r/0/0/0")));
        assertTrue(buffer.isEmpty());
    }

    @Test
    void theCountsOfAJobAreReportedByOneOfItsWriters() {
        Object one = new Object();
        Object other = new Object();
        drop("twice");
        assertEquals(1, SinkMetrics.of("twice", one).retainedDropped());
        assertEquals(0, SinkMetrics.of("twice", other).retainedDropped());
        drop("twice");
        assertEquals(2, SinkMetrics.of("twice", one).retainedDropped());
        SinkMetrics.release("twice", other);
        assertEquals(2, SinkMetrics.of("twice", one).retainedDropped());
        SinkMetrics.release("twice", one);
        assertEquals(0, SinkMetrics.of("twice", other).retainedDropped(), "they were reported");
        SinkMetrics.release("twice", other);
    }

    /** As after an update of a job, whose counts SpecK adds to those of its former copy. */
    @Test
    void anotherCopyOfAJobReportsOnlyWhatTheFormerOneHasNot() {
        Object former = new Object();
        Object present = new Object();
        SinkMetrics.begin("updated", former);
        drop("updated");
        assertEquals(1, SinkMetrics.of("updated", former).retainedDropped());
        drop("updated"); // after its last report
        SinkMetrics.begin("updated", present);
        drop("updated");
        assertEquals(2, SinkMetrics.of("updated", present).retainedDropped());
        assertEquals(SinkMetrics.NONE, SinkMetrics.of("updated", former));
        assertEquals(3, SinkMetrics.of("updated").retainedDropped());
    }

    private static void drop(String job) {
        RetransmissionBuffer buffer = new RetransmissionBuffer(1, 0);
        buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[1], null, bytes(job), bytes("r/0/0/0")));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
