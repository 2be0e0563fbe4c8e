package io.speck.spark.mqtt;

import io.speck.connector.reader.Message;
import io.speck.mqtt.failure.Cause;
import io.speck.mqtt.failure.LeftOut;
import io.speck.spark.mqtt.FailedRanges.Range;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import java.util.zip.CRC32C;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Leaves out the messages on which tasks of earlier runs of this query failed.
 *
 * <p>A range of several messages is split into partitions of one message each ({@link #MOST_PARTS} partitions at most,
 * so that a large one takes two runs: a task of the first one notes a narrower range). A message is left out once it has
 * failed twice with the same error, of which at least the second time in a partition of its own. If the error is one that
 * a service which is away may raise too, a task with other messages of the batch must have succeeded in a run in which it
 * failed, unless there are no others.
 */
final class FailedMessages {
    /**
     * The messages of a partition.
     *
     * @param sound true if no task has failed on one of them, so that they may be divided further
     * @param watched true if the task should note its success
     * @param behind true if the task should wait for the success of another one
     */
    record Group(List<Message> messages, boolean sound, boolean watched, boolean behind) {}

    /**
     * The messages of a batch, without those left out.
     *
     * @param mark the same for the same groups; 0 if no task has failed on a message of the batch
     */
    record Grouping(List<Group> groups, long mark) {}

    private static final Logger LOG = LoggerFactory.getLogger(FailedMessages.class);
    private static final int MOST_PARTS = 500;
    private static final int FAILURES = 2;

    private final FailedRanges files;
    private final LeftOut leftOut;
    private final String run = UUID.randomUUID().toString();
    private List<Range> ranges;
    private long countedUntil;

    FailedMessages(FailedRanges files, LeftOut leftOut) {
        this.files = files;
        this.leftOut = leftOut;
    }

    FailedRanges files() {
        return files;
    }

    String run() {
        return run;
    }

    LeftOut leftOut() {
        return leftOut;
    }

    /**
     * The remaining messages of a batch in groups that need partitions of their own, or a single group.
     *
     * @param fault the reason to leave a message out at once; null for none
     */
    Grouping group(List<Message> messages, Function<Message, String> fault) throws IOException, InterruptedException {
        if (ranges == null) {
            ranges = files.read();
        }
        List<Message> sound = new ArrayList<>();
        List<Message> tried = new ArrayList<>();
        Map<Range, List<Message>> suspects = new LinkedHashMap<>();
        boolean failed = false;
        for (Message message : messages) {
            Range narrowest = narrowest(message);
            failed |= narrowest != null;
            String reason = fault.apply(message);
            if (reason != null) {
                leaveOut(message, reason);
            } else if (narrowest == null) {
                sound.add(message);
            } else if (!narrowest.isOne()) {
                suspects.computeIfAbsent(narrowest, each -> new ArrayList<>()).add(message);
            } else if (isCause(narrowest, messages.size())) {
                leaveOut(message, narrowest.reason());
            } else {
                tried.add(message);
            }
        }
        leftOut.flush();
        List<Group> groups = groups(sound, suspects.values(), tried);
        return new Grouping(groups, failed ? mark(groups) : 0);
    }

    /** Returns the smallest range that holds a message; null for none. */
    private Range narrowest(Message message) {
        return ranges.stream().filter(each -> each.holds(message.offset()))
                .min(Comparator.comparingLong(each -> each.last() - each.first())).orElse(null);
    }

    private boolean isCause(Range range, int messages) throws IOException {
        if (range.runs().size() < FAILURES) {
            return false;
        }
        boolean proven = range.cause() == Cause.MESSAGE || messages == 1;
        for (String each : range.runs()) {
            proven = proven || files.hasPassed(each);
        }
        return proven;
    }

    /**
     * @param suspects the messages of each range, among which is one on which a task has failed
     * @param tried messages on which a task has failed, and which is known; they come last
     */
    private List<Group> groups(List<Message> sound, Collection<List<Message>> suspects, List<Message> tried) {
        boolean watched = !suspects.isEmpty() || !tried.isEmpty();
        List<Group> groups = new ArrayList<>();
        if (!sound.isEmpty() || !watched) {
            groups.add(new Group(sound, true, watched, false));
        }
        for (List<Message> range : suspects) {
            int size = (range.size() + MOST_PARTS - 1) / MOST_PARTS;
            for (int from = 0; from < range.size(); from += size) {
                groups.add(new Group(range.subList(from, Math.min(range.size(), from + size)), false, true, false));
            }
        }
        boolean others = !groups.isEmpty();
        for (Message message : tried) {
            groups.add(new Group(List.of(message), false, true, others && needsOthers(message)));
        }
        return groups;
    }

    private static long mark(List<Group> groups) {
        CRC32C crc = new CRC32C();
        for (Group group : groups) {
            ByteBuffer offsets = ByteBuffer.allocate(Long.BYTES * (1 + group.messages().size()));
            offsets.putLong(group.sound() ? -1 : -2);
            group.messages().forEach(each -> offsets.putLong(each.offset()));
            crc.update(offsets.flip());
        }
        return 1 + crc.getValue();
    }

    private boolean needsOthers(Message message) {
        return ranges.stream().anyMatch(each -> each.isOne() && each.holds(message.offset()) && each.cause() == Cause.CODE);
    }

    private void leaveOut(Message message, String reason) throws InterruptedException {
        if (message.offset() >= countedUntil) {
            LOG.warn("the code failed on message {} of topic '{}', which is left out: {}", message.offset(),
                    message.topic(), reason);
            leftOut.add(message.topic(), message.payload(), message.key(), reason);
            countedUntil = message.offset() + 1;
        }
    }

    /** Forgets the failures of a committed batch. */
    void committed(long offset) throws IOException {
        if (ranges == null || ranges.isEmpty()) {
            return;
        }
        for (Range each : ranges) {
            if (each.last() < offset) {
                files.delete(each);
            }
        }
        ranges = ranges.stream().filter(each -> each.last() >= offset).toList();
        if (ranges.isEmpty()) {
            files.deletePassed();
        }
    }
}
