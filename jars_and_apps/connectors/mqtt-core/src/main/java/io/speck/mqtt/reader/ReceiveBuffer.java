package io.speck.mqtt.reader;

import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.DedupWatermarks;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;

/**
 * The messages in hand, in order: received (or awaited again) and not committed. Gives each its offset, and drops what
 * the stamps show to be a duplicate. Not thread-safe; guarded by the reader's lock.
 */
final class ReceiveBuffer {
    private final Deque<Message> messages = new ArrayDeque<>();
    /** Those not given out yet, where messages are given out as they come. */
    private final Deque<Message> waiting = new ArrayDeque<>();
    private final boolean streaming;
    private DedupWatermarks received = new DedupWatermarks();
    private DedupWatermarks recorded = new DedupWatermarks();
    private long next;
    private long bytes;
    private int missing;

    /** @param streaming whether messages are given out once, by {@link #take}, and not as batches */
    ReceiveBuffer(boolean streaming) {
        this.streaming = streaming;
    }

    /** Begins after a restart: at this offset, with these marks, and the messages of a batch that will come again. */
    void restore(long start, DedupWatermarks marks, Collection<Message> awaited) {
        next = start;
        received = marks.copy();
        recorded = marks.copy();
        for (Message message : awaited) {
            message.offset = next;
            next += message.duplicate ? 0 : 1;
            if (message.packetId != 0) {
                messages.add(message);
                missing++;
            }
        }
    }

    /** The offset that the next message will have. */
    long next() {
        return next;
    }

    long bytes() {
        return bytes;
    }

    int missing() {
        return missing;
    }

    int size() {
        return messages.size();
    }

    Collection<Message> messages() {
        return messages;
    }

    /** Whether a message repeats one that was received before, by its stamp; takes note of it otherwise. */
    boolean repeats(Message message) {
        return message.stamp != null && !received.advance(message.stamp);
    }

    void add(Message message, boolean duplicate) {
        message.duplicate = duplicate;
        message.offset = next;
        next += duplicate ? 0 : 1;
        bytes += message.bytes();
        messages.add(message);
        if (streaming && !duplicate) {
            waiting.add(message);
        }
    }

    /** Whether something below the offset waits to be given out. */
    boolean waits(long end) {
        return !waiting.isEmpty() && waiting.peek().offset < end;
    }

    /** Gives out, for good, so many of what waits below the offset; from then on only their identities take memory. */
    List<Received> take(int most, long end) {
        List<Received> taken = new ArrayList<>(Math.min(most, waiting.size()));
        while (taken.size() < most && waits(end)) {
            Message message = waiting.remove();
            bytes -= message.payload.length;
            taken.add(message.take());
        }
        return taken;
    }

    /** The awaited message came. */
    void fill(Message awaited, Message incoming) {
        awaited.topic = incoming.topic;
        awaited.payload = incoming.payload;
        awaited.key = incoming.key;
        bytes += awaited.bytes();
        missing--;
    }

    /** An awaited message with the content and the stamp of this one; null when there is none. */
    Message awaitedLike(Message incoming) {
        if (missing == 0 || incoming.stamp == null) {
            return null;
        }
        return messages.stream().filter(each -> each.missing() && each.hash == incoming.hash).findFirst().orElse(null);
    }

    /** Whether any message ever had a stamp: only such a one can be recognised when it was written again. */
    boolean stamped() {
        return received.size() > 0;
    }

    /** See {@link DedupWatermarks#loosen}. */
    void beginReordering() {
        received.beginReordering();
    }

    void endReordering() {
        received.endReordering();
    }

    /** Gives up what is still missing; the others keep their offsets. */
    void dropMissing() {
        messages.removeIf(Message::missing);
        missing = 0;
    }

    /** Those given out under the offsets [start, end). */
    List<Message> between(long start, long end) {
        List<Message> found = new ArrayList<>((int) Math.min(end - start, messages.size()));
        for (Message message : messages) {
            if (message.offset >= end) {
                break;
            }
            if (message.offset >= start && !message.duplicate) {
                found.add(message);
            }
        }
        return found;
    }

    /** All of [start, end), duplicates in between included; their stamps count as recorded from now on. */
    List<Message> record(long start, long end) {
        List<Message> found = new ArrayList<>();
        for (Message message : messages) {
            if (message.offset >= end) {
                break;
            }
            if (message.offset < start) {
                continue; // of an earlier batch that is not committed yet
            }
            found.add(message);
            if (message.stamp != null) {
                recorded.advance(message.stamp);
            }
        }
        return found;
    }

    DedupWatermarks recordedMarks() {
        return recorded;
    }

    /** Removes all before the offset, and the duplicates that follow at once. */
    List<Message> removeUntil(long end) {
        List<Message> removed = new ArrayList<>();
        Iterator<Message> each = messages.iterator();
        while (each.hasNext()) {
            Message message = each.next();
            if (message.offset >= end && !(message.offset == end && message.duplicate)) {
                break;
            }
            each.remove();
            if (!message.missing()) {
                bytes -= message.bytes();
                message.payload = null;
            }
            removed.add(message);
        }
        return removed;
    }
}
