package io.speck.kafka;

import io.speck.kafka.KafkaBatchRecord.Run;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;

/**
 * Messages in the order of their arrival, as runs: a flood takes as much memory as a few messages. Not thread-safe.
 */
final class Runs {
    /** Approximate memory of a run: an object and its reference. */
    private static final int RUN_BYTES = 64;

    /** A run that may grow; {@code offset} is the number of messages before its first one, of which duplicates are none. */
    private static final class Growing {
        private final int partition;
        private final long epoch;
        private final int fate;
        private long offset;
        private long first;
        private long count;

        Growing(KafkaMessage message) {
            offset = message.offset;
            partition = message.partition;
            epoch = message.epoch;
            first = message.position;
            fate = Run.fate(message);
        }

        boolean takes(KafkaMessage message) {
            return message.partition == partition && message.epoch == epoch && message.position == first + count
                    && Run.fate(message) == fate;
        }

        boolean duplicates() {
            return (fate & Run.DUPLICATE) != 0;
        }

        /** The number of its messages whose offsets are below this one. */
        long below(long end) {
            return duplicates() ? offset < end ? count : 0 : Math.max(0, Math.min(count, end - offset));
        }

        void removeFirst(long messages) {
            offset += messages;
            first += messages;
            count -= messages;
        }
    }

    private final Deque<Growing> runs = new ArrayDeque<>();
    private long end;

    /** Returns the runs of messages. */
    static List<Run> of(List<KafkaMessage> messages) {
        Runs runs = new Runs();
        messages.forEach(runs::add);
        return runs.between(0, Long.MAX_VALUE);
    }

    void add(KafkaMessage message) {
        Growing last = runs.peekLast();
        if (last == null || !last.takes(message)) {
            last = new Growing(message);
            runs.add(last);
        }
        last.count++;
        end = message.offset + (message.duplicate ? 0 : 1);
    }

    boolean has(int partition) {
        return runs.stream().anyMatch(each -> each.partition == partition);
    }

    boolean isEmpty() {
        return runs.isEmpty();
    }

    /** The offset behind the last message. */
    long end() {
        return end;
    }

    /** Their memory. */
    long bytes() {
        return (long) RUN_BYTES * runs.size();
    }

    /** Returns the runs of the messages with the offsets [start, end), with the duplicates between them. */
    List<Run> between(long start, long end) {
        List<Run> found = new ArrayList<>();
        for (Growing run : runs) {
            long skipped = run.below(start);
            long count = run.below(end) - skipped;
            if (count > 0) {
                found.add(new Run(run.partition, run.epoch, run.first + skipped, count, run.fate));
            }
        }
        return found;
    }

    /**
     * Removes the messages below the offset, and the duplicates that follow directly, and moves a place behind them.
     *
     * @return true if there were any
     */
    boolean removeUntil(long offset, Place place) {
        boolean removed = false;
        for (Iterator<Growing> each = runs.iterator(); each.hasNext();) {
            Growing run = each.next();
            long count = run.duplicates() ? run.below(offset + 1) : run.below(offset);
            if (count == 0) {
                break;
            }
            removed = true;
            place.advance(run.partition, run.epoch, run.first + count);
            if (count < run.count) {
                run.removeFirst(count);
                break;
            }
            each.remove();
        }
        return removed;
    }
}
