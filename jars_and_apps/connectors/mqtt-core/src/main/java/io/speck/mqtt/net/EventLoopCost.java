package io.speck.mqtt.net;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;

/**
 * The processor time of a process's event loops by the messages that they carry.
 *
 * <p>An event loop takes most of its time to wake up, and the more messages there are, the more of them it finds at a
 * time: its cores grow with the root of the messages/s. By which factor depends on how the messages come: one by one, or
 * several at a time.
 */
public final class EventLoopCost {
    /** The value while too few messages were carried. */
    public static final double UNKNOWN = -1;

    private static final long SPAN_NANOS = TimeUnit.SECONDS.toNanos(60);
    private static final long STEP_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final long LEAST_SPAN_NANOS = TimeUnit.SECONDS.toNanos(10);
    /** With fewer a second, most of the time is that of timers and of other packets. */
    private static final double LEAST_RATE = 20;

    private final LongAdder messages = new LongAdder();
    private final Deque<Point> points = new ArrayDeque<>();
    private final LongSupplier clock;
    private final LongSupplier processorNanos;

    private record Point(long nanos, long processorNanos, long messages) {}

    /**
     * @param clock monotonic time, ns
     * @param processorNanos processor time of all event loops so far, ns
     */
    EventLoopCost(LongSupplier clock, LongSupplier processorNanos) {
        this.clock = clock;
        this.processorNanos = processorNanos;
    }

    /** Counts a message that was read or written. */
    public void count() {
        messages.increment();
    }

    /**
     * Returns the cores of the event loops per root of the messages/s in and out, over the last minute at most;
     * {@link #UNKNOWN} with fewer than 20 messages/s. The first call begins to measure.
     */
    public synchronized double perRoot() {
        long now = clock.getAsLong();
        while (!points.isEmpty() && now - points.peekFirst().nanos > SPAN_NANOS) {
            points.removeFirst();
        }
        Point latest = new Point(now, processorNanos.getAsLong(), messages.sum());
        Point oldest = points.peekFirst();
        if (oldest == null || now - points.peekLast().nanos >= STEP_NANOS) {
            points.addLast(latest);
        }
        if (oldest == null || now - oldest.nanos < LEAST_SPAN_NANOS) {
            return UNKNOWN;
        }
        double seconds = (double) (now - oldest.nanos) / TimeUnit.SECONDS.toNanos(1);
        double rate = (latest.messages - oldest.messages) / seconds;
        double cores = (double) (latest.processorNanos - oldest.processorNanos) / (now - oldest.nanos);
        return rate < LEAST_RATE || cores <= 0 ? UNKNOWN : cores / Math.sqrt(rate);
    }
}
