package io.speck.connector.reader;

import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.SeenStamps;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;

/**
 * The uncommitted messages, received or awaited again, in order. Gives each message its offset, and drops duplicates by
 * their stamps. Not thread-safe; guarded by the reader's lock.
 */
public final class ReceiveBuffer {
    private final Deque<Message> messages = new ArrayDeque<>();
    /** The messages that the engine has not taken yet, for an engine that works on a stream. */
    private final Deque<Message> waiting = new ArrayDeque<>();
    private final boolean streaming;
    private SeenStamps received = new SeenStamps(SeenStamps.MAXIMUM_HASHES);
    /** The stamps of the messages up to the end of the last recorded batch. */
    private SeenStamps recorded = new SeenStamps(SeenStamps.RECORDED_HASHES);
    /** The messages of the batch before a restart, in order, and the stamps seen before it. */
    private List<Message> restored = List.of();
    private SeenStamps before = recorded;
    private long restoredEnd;
    private boolean gaveUp;
    private long next;
    private long bytes;
    private int missing;
    /** The number of the coordinator's messages among them. */
    private int markers;

    /** @param streaming true if the engine takes each message once, by {@link #take}, and not in batches */
    public ReceiveBuffer(boolean streaming) {
        this.streaming = streaming;
    }

    /** Starts at an offset, with the stamps seen. */
    public void restore(long start, SeenStamps seen) {
        restore(start, seen, seen, List.of());
    }

    /** Starts at an offset, with the messages of a batch before a restart and the stamps seen before and after it. */
    public void restore(long start, SeenStamps before, SeenStamps seen, List<Message> awaited) {
        this.before = before;
        restored = awaited;
        next = start;
        received = seen.copy(SeenStamps.MAXIMUM_HASHES);
        recorded = seen;
        for (Message message : awaited) {
            message.offset = next;
            next += message.duplicate ? 0 : 1;
            if (message.packetId != 0) {
                messages.add(message);
                missing++;
            }
        }
        restoredEnd = next;
    }

    /** The offset of the next message. */
    public long next() {
        return next;
    }

    public long bytes() {
        return bytes;
    }

    public int missing() {
        return missing;
    }

    public int size() {
        return messages.size();
    }

    public Collection<Message> messages() {
        return messages;
    }

    /** Records the stamp of a message, and returns if it was received before. */
    public SeenStamps.Verdict see(Message message) {
        return received.add(message.stamp, message.contentHash);
    }

    public void add(Message message, boolean duplicate) {
        message.duplicate = duplicate;
        message.offset = next;
        next += duplicate ? 0 : 1;
        bytes += message.bytes();
        messages.add(message);
        markers += message.marker == null ? 0 : 1;
        if (streaming && !duplicate) {
            waiting.add(message);
        }
    }

    /** Leaves the offset of the next message to one that is lost. */
    public void skip() {
        next++;
    }

    /** The number of messages that wait to be taken. */
    public int waiting() {
        return waiting.size();
    }

    /** True if a message below the offset waits to be taken. */
    public boolean hasWaiting(long end) {
        return !waiting.isEmpty() && waiting.peek().offset < end;
    }

    /** True if a drain marker waits for nothing but the commit of the messages below the offset. */
    public boolean hasMarkerBehind(long end) {
        return markers > 0 && messages.stream().anyMatch(each -> each.marker != null && each.offset <= end);
    }

    /**
     * Takes waiting messages below the offset, {@code limit} at most; from then on only their identities use memory.
     */
    public List<Received> take(int limit, long end) {
        List<Received> taken = new ArrayList<>(Math.min(limit, waiting.size()));
        while (taken.size() < limit && hasWaiting(end)) {
            Message message = waiting.remove();
            bytes -= message.bytes();
            taken.add(message.take());
            bytes += message.bytes();
        }
        return taken;
    }

    /** Fills an awaited message with the content of its redelivery. */
    public void fill(Message awaited, Message incoming) {
        awaited.fill(incoming);
        bytes += awaited.bytes();
        missing--;
    }

    /** Returns an awaited message with the content and the stamp of this one; null if there is none. */
    public Message findAwaited(Message incoming) {
        if (missing == 0 || incoming.stamp == null) {
            return null;
        }
        int asTexts = incoming.contentHash;
        int compact = incoming.compactHash(); // its writer may send it again in the other form
        return messages.stream().filter(each -> each.missing() && (each.hash == asTexts || each.hash == compact))
                .findFirst().orElse(null);
    }

    /** True if any message had a stamp: only stamped messages are recognised when they are written again. */
    public boolean hasStamps() {
        return received.streams() > 0;
    }

    /**
     * Drops missing messages, as if they had never been received: they may come after all, from a writer that is back
     * only then. The others keep their offsets.
     */
    public void dropMissing() {
        messages.stream().filter(Message::missing).forEach(each -> each.givenUp = true);
        messages.removeIf(Message::missing);
        missing = 0;
        gaveUp = true;
        received = before.copy(SeenStamps.MAXIMUM_HASHES);
        recorded = before.copy(SeenStamps.RECORDED_HASHES);
        for (Message message : messages) {
            if (message.stamp != null) {
                received.add(message.stamp, message.contentHash);
                if (message.offset < restoredEnd) {
                    recorded.add(message.stamp, message.contentHash);
                }
            }
        }
    }

    /** The batch before a restart as it is without its missing messages, once; null if none were dropped. */
    public List<Message> shortened() {
        List<Message> found = gaveUp ? restored : null;
        gaveUp = false;
        return found;
    }

    public long restoredEnd() {
        return restoredEnd;
    }

    /** Returns the messages with the offsets [start, end), without duplicates. */
    public List<Message> between(long start, long end) {
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

    /** Returns the messages of [start, end) with the duplicates in between, and records their stamps. */
    public List<Message> record(long start, long end) {
        List<Message> found = new ArrayList<>();
        for (Message message : messages) {
            if (message.offset >= end) {
                break;
            }
            if (message.offset < start) {
                continue; // belongs to an earlier, uncommitted batch
            }
            found.add(message);
            if (message.stamp != null) {
                recorded.add(message.stamp, message.contentHash);
            }
        }
        return found;
    }

    /** Returns the messages of the coordinator before the offset, and those that follow it directly. */
    public List<Message> markersUntil(long end) {
        return markers == 0 ? List.of() : messages.stream().takeWhile(each -> !isBehind(each, end))
                .filter(each -> each.marker != null).toList();
    }

    private static boolean isBehind(Message message, long end) {
        return message.offset >= end && !(message.offset == end && message.duplicate);
    }

    /**
     * Removes the messages before the offset, and the duplicates that follow directly, and records their stamps; for a
     * reader that keeps their places itself, once the engine has passed them on.
     */
    public List<Message> settle(long end) {
        List<Message> settled = removeUntil(end);
        for (Message message : settled) {
            if (message.stamp != null) {
                recorded.add(message.stamp, message.contentHash);
            }
        }
        return settled;
    }

    public SeenStamps recordedStamps() {
        return recorded;
    }

    /** Removes the messages before the offset, and the duplicates that follow directly. */
    public List<Message> removeUntil(long end) {
        List<Message> removed = new ArrayList<>();
        Iterator<Message> each = messages.iterator();
        while (each.hasNext()) {
            Message message = each.next();
            if (isBehind(message, end)) {
                break;
            }
            each.remove();
            markers -= message.marker == null ? 0 : 1;
            if (!message.missing()) {
                bytes -= message.bytes();
                message.release();
            }
            removed.add(message);
        }
        return removed;
    }
}
