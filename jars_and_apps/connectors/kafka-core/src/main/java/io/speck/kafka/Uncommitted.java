package io.speck.kafka;

import io.speck.connector.reader.Message;
import io.speck.connector.reader.ReceiveBuffer;
import io.speck.kafka.KafkaBatchRecord.Run;
import io.speck.mqtt.Received;
import java.util.List;

/**
 * The messages of a reader that are not committed, in order: as runs those that an engine has taken from the stream and
 * passed on, in the reader's buffer the others. Guarded by the reader's lock.
 */
final class Uncommitted {
    private final ReceiveBuffer buffer;
    private final boolean streaming;
    private final Runs taken = new Runs();
    /** The offset behind the messages that the engine took last. */
    private long takenEnd;

    /** @param streaming true if the engine takes each message once, by {@link #take}, and not in batches */
    Uncommitted(ReceiveBuffer buffer, boolean streaming) {
        this.buffer = buffer;
        this.streaming = streaming;
    }

    boolean isEmpty() {
        return buffer.size() == 0 && taken.isEmpty();
    }

    /** True if one of them is of this partition. */
    boolean has(int partition) {
        return taken.has(partition) || buffer.messages().stream().map(KafkaMessage.class::cast)
                .anyMatch(each -> each.partition == partition);
    }

    /** Their memory. */
    long bytes() {
        return buffer.bytes() + taken.bytes();
    }

    /** Takes the next messages, once the engine has passed on all that it took before. */
    List<Received> take(int limit) {
        settle(takenEnd);
        List<Received> messages = buffer.take(limit, Long.MAX_VALUE);
        takenEnd = messages.isEmpty() ? takenEnd : messages.get(messages.size() - 1).offset() + 1;
        return messages;
    }

    /** Keeps but the runs of messages that are in the next batch, whenever it ends. */
    private void settle(long end) {
        buffer.settle(end).forEach(each -> taken.add((KafkaMessage) each));
    }

    /** Returns the runs of a batch, and records its stamps. */
    List<Run> batch(long start, long end) {
        if (!streaming) {
            return Runs.of(buffer.record(start, end).stream().map(KafkaMessage.class::cast).toList());
        }
        settle(end);
        if (taken.end() > end) {
            throw new IllegalStateException("the batch ends at " + end + ", and messages up to " + taken.end()
                    + " were passed on before it ended");
        }
        return taken.between(start, end);
    }

    /**
     * Removes the messages below the offset, and the duplicates that follow directly, and moves a place behind them.
     *
     * @return true if there were any
     */
    boolean removeUntil(long end, Place place) {
        boolean removed = taken.removeUntil(end, place);
        List<Message> others = buffer.removeUntil(end);
        others.forEach(each -> place.pass((KafkaMessage) each));
        return removed || !others.isEmpty();
    }
}
