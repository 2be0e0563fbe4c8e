package io.speck.spark.mqtt;

import io.speck.mqtt.Utf8;
import io.speck.mqtt.failure.LeftOut;
import io.speck.mqtt.reader.Message;
import io.speck.spark.mqtt.FailedRanges.Range;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Leaves out the messages on which tasks of earlier runs of this query failed.
 *
 * <p>A range of several messages is split into partitions of one message each ({@link #MOST_PARTS} partitions at most,
 * so that a large one takes two runs), and the message whose partition fails is left out in the next run.
 */
final class FailedMessages {
    private static final Logger LOG = LoggerFactory.getLogger(FailedMessages.class);
    private static final int MOST_PARTS = 500;

    private final FailedRanges files;
    private final LeftOut leftOut;
    private List<Range> ranges;
    private long countedUntil;

    FailedMessages(FailedRanges files, LeftOut leftOut) {
        this.files = files;
        this.leftOut = leftOut;
    }

    FailedRanges files() {
        return files;
    }

    LeftOut leftOut() {
        return leftOut;
    }

    /**
     * The remaining messages of a batch in groups that need partitions of their own, or a single group.
     *
     * @param text true to leave out messages whose contents are not UTF-8
     */
    List<List<Message>> group(List<Message> messages, boolean text) throws IOException, InterruptedException {
        if (ranges == null) {
            ranges = files.read();
        }
        List<List<Message>> groups = new ArrayList<>();
        List<Message> sound = new ArrayList<>();
        List<Message> suspects = new ArrayList<>();
        for (Message message : messages) {
            Optional<Range> one = ranges.stream().filter(each -> each.isOne() && each.holds(message.offset())).findFirst();
            String fault = text ? Utf8.fault(message.payload()) : null;
            if (one.isPresent() || fault != null) {
                leaveOut(message, fault != null ? TextMessages.reason(fault) : one.get().reason());
            } else if (ranges.stream().anyMatch(each -> each.holds(message.offset()))) {
                suspects.add(message);
            } else {
                sound.add(message);
            }
        }
        leftOut.flush();
        if (!sound.isEmpty() || suspects.isEmpty()) {
            groups.add(sound);
        }
        int size = Math.max(1, (suspects.size() + MOST_PARTS - 1) / MOST_PARTS);
        for (int from = 0; from < suspects.size(); from += size) {
            groups.add(suspects.subList(from, Math.min(suspects.size(), from + size)));
        }
        return groups;
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
    }
}
