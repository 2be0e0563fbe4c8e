package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.ReceiveBuffer;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.junit.jupiter.api.Test;

class RoomTest {
    private static final long SHORT = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONG = TimeUnit.MINUTES.toNanos(2);

    private final ReentrantLock lock = new ReentrantLock();

    /** A reader of messages of 100 bytes. */
    private final class Reader {
        final ReceiveBuffer buffer;
        final Uncommitted uncommitted;
        final Room room;
        private long number;

        Reader(boolean streaming, long mostBytes) {
            buffer = new ReceiveBuffer(streaming);
            uncommitted = new Uncommitted(buffer, streaming);
            room = new Room(lock.newCondition(), buffer, uncommitted, mostBytes);
        }

        void add(int messages) {
            for (int i = 0; i < messages; i++) {
                buffer.add(new KafkaMessage(0, 0, number++, 7, "in", new byte[100], 0, null), false);
            }
        }

        boolean await(long nanos) throws InterruptedException {
            lock.lock();
            try {
                return room.await(nanos);
            } finally {
                lock.unlock();
            }
        }
    }

    @Test
    void anEngineThatIsBehindIsWaitedFor() throws InterruptedException {
        Reader reader = new Reader(true, Long.MAX_VALUE);
        reader.add(Room.MOST_WAITING);
        assertTrue(reader.await(SHORT));
        reader.add(1);
        assertFalse(reader.await(SHORT));
        reader.uncommitted.take(1);
        assertTrue(reader.await(SHORT));
    }

    @Test
    void theWaitEndsWhenHalfOfThemAreTaken() throws Exception {
        Reader reader = new Reader(true, Long.MAX_VALUE);
        reader.add(2 * Room.MOST_WAITING);
        CompletableFuture<Integer> waiting = CompletableFuture.supplyAsync(() -> {
            lock.lock();
            try {
                return reader.room.await(LONG) ? reader.buffer.waiting() : -1;
            } catch (InterruptedException e) {
                return -2;
            } finally {
                lock.unlock();
            }
        });
        while (!waiting.isDone()) {
            lock.lock();
            try {
                reader.uncommitted.take(100);
                reader.room.changed();
            } finally {
                lock.unlock();
            }
            Thread.sleep(1);
        }
        assertTrue(waiting.get() >= 0, waiting::toString);
    }

    /** Messages of a batch keep their room until it is committed. */
    @Test
    void anEngineThatWorksInBatchesIsBoundByMemoryAlone() throws InterruptedException {
        Reader reader = new Reader(false, 700_000);
        reader.add(Room.MOST_WAITING + 1);
        assertTrue(reader.await(SHORT));
        reader.add(Room.MOST_WAITING);
        assertFalse(reader.await(SHORT));
        reader.uncommitted.removeUntil(Room.MOST_WAITING, Place.at(Map.of()));
        assertTrue(reader.await(SHORT));
        assertEquals(Room.MOST_WAITING + 1, reader.buffer.size());
    }
}
