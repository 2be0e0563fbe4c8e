package io.speck.spark.mqtt;

import io.speck.connector.MessageSource;
import io.speck.mqtt.Received;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Gives the messages of a real-time query to the tasks of its present batch, in order, one at a time.
 *
 * <p>Spark ends a batch by its clock, without a call of the readers. What was taken from the source and not given to a
 * task stays here, for the next batch: a reader has no messages of its own.
 *
 * <p>A batch ends earlier, by the answer that there is no more, when it holds as many rows as a batch may have, when a
 * commit is due ({@link MessageSource#commitIsDue}), and by an order. The first batch of a query ends with the first pause,
 * as evidence that the query works.
 */
final class RealTimeFeed {
    private static final int CHUNK = 256;
    /** An order is noticed after this time. */
    private static final long SLICE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
    /** An order to hold that nothing follows is void after this time. */
    private static final long HOLD_NANOS = TimeUnit.SECONDS.toNanos(60);

    private final String key;
    private final MessageSource source;
    private final long maxRows;
    private final int partitions;
    /** Null if the query fails with its first error. */
    private final RealTimeFailures failures;
    private final ReentrantLock turn = new ReentrantLock();
    private final Deque<Received> taken = new ArrayDeque<>();
    /** The time of the batch's tasks in {@link #next}, together. */
    private final LongAdder waitedNanos = new LongAdder();
    private boolean first = true;
    private boolean ended;
    private long start;
    private long given;
    /** True once all before the batch is acknowledged: until then, a commit would seem due. */
    private volatile boolean acknowledged;
    private volatile boolean text;
    private volatile long heldSince;
    private volatile boolean holds;
    private volatile boolean begunSinceHold;

    /**
     * @param key its name among those of this process
     * @param failures treats the messages on which the query failed; null if it fails with its first error
     */
    RealTimeFeed(String key, MessageSource source, long maxRows, int partitions, RealTimeFailures failures) {
        this.partitions = partitions;
        this.failures = failures;
        this.key = key;
        this.source = source;
        this.maxRows = maxRows;
    }

    String key() {
        return key;
    }

    /** The number of tasks of a batch. */
    int partitions() {
        return partitions;
    }

    /** The treatment of messages on which the query failed; null if it fails with its first error. */
    RealTimeFailures failures() {
        return failures;
    }

    /** Begins a batch at an offset, up to which all is committed. */
    void begin(long offset) {
        turn.lock();
        try {
            if (given != offset && given > 0) {
                throw new IllegalStateException("the batch begins at " + offset + ", the one before ended at " + given);
            }
            start = offset;
            given = offset;
            ended = false;
            acknowledged = false;
            waitedNanos.reset();
            begunSinceHold = holds;
        } finally {
            turn.unlock();
        }
    }

    /** Reports that all before the batch is acknowledged. */
    void acknowledged() {
        acknowledged = true;
    }

    /** Requires that contents are text. */
    void requireText() {
        text = true;
    }

    /** True if contents that are not UTF-8 are an error. */
    boolean isText() {
        return text;
    }

    /** The offset at which the batch began. */
    long start() {
        return start;
    }

    /** Ends the batch once all that was left out is parked; returns the offset behind its last message. */
    long end() throws InterruptedException {
        turn.lock();
        try {
            if (failures != null) {
                failures.flush();
            }
            return given;
        } finally {
            turn.unlock();
        }
    }

    /** The offset behind the last message that was given, or left out. */
    long given() {
        turn.lock();
        try {
            return given;
        } finally {
            turn.unlock();
        }
    }

    /** The time in which a task of the batch waited for messages, in the mean over its tasks. */
    long waitedMillis() {
        return TimeUnit.NANOSECONDS.toMillis(waitedNanos.sum() / partitions);
    }

    /** Returns the next message; null if none came within the time, or the batch is over. */
    Received next(long timeoutMillis) throws IOException, InterruptedException {
        long called = System.nanoTime();
        try {
            return next(timeoutMillis, called + TimeUnit.MILLISECONDS.toNanos(timeoutMillis));
        } finally {
            waitedNanos.add(System.nanoTime() - called);
        }
    }

    private Received next(long timeoutMillis, long deadline) throws IOException, InterruptedException {
        if (!turn.tryLock(timeoutMillis, TimeUnit.MILLISECONDS)) {
            return null;
        }
        try {
            while (!isOver()) {
                Received again = failures == null ? null : failures.triedAgain();
                if (again != null) {
                    return again;
                }
                Received next = isHeld() && !hasDeferred() ? null : poll();
                if (next != null && admits(next)) {
                    return next;
                }
                long remaining = Math.min(deadline - System.nanoTime(), SLICE_NANOS);
                if (remaining <= 0) {
                    return null;
                }
                if (next == null) {
                    pause(remaining);
                }
            }
            return null;
        } finally {
            turn.unlock();
        }
    }

    private Received poll() {
        if (taken.isEmpty()) {
            taken.addAll(source.take(CHUNK));
        }
        Received next = taken.poll();
        if (next != null) {
            given = next.offset() + 1;
        }
        return next;
    }

    private boolean admits(Received next) throws IOException, InterruptedException {
        return failures == null || failures.admits(next);
    }

    private boolean hasDeferred() {
        return failures != null && failures.hasDeferred();
    }

    /** Determines if the batch is over, for all of its tasks; not before each deferred message has been tried again. */
    private boolean isOver() {
        ended |= !hasDeferred() && (given - start >= maxRows || holds && !begunSinceHold
                || taken.isEmpty() && acknowledged && source.commitIsDue(given));
        return ended;
    }

    private boolean isHeld() {
        if (holds && System.nanoTime() - heldSince > HOLD_NANOS) {
            holds = false;
        }
        return holds;
    }

    private void pause(long nanos) throws InterruptedException {
        if (first && !holds && !hasDeferred()) {
            first = false;
            ended = true;
        } else if (holds) {
            TimeUnit.NANOSECONDS.sleep(nanos);
        } else {
            source.await(given + 1, nanos);
        }
    }

    /**
     * Orders the present batch to end, and the next to give nothing; returns if that state is reached. Takes no turn: a
     * task keeps its own while it waits for a message, for up to the rest of the batch.
     */
    boolean hold() {
        heldSince = System.nanoTime();
        if (!holds) {
            begunSinceHold = false;
            holds = true;
        }
        return begunSinceHold;
    }
}
