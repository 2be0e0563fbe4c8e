package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Message;
import io.speck.mqtt.failure.Cause;
import io.speck.mqtt.failure.LeftOut;
import io.speck.mqtt.failure.OnError;
import io.speck.spark.mqtt.FailedMessages.Group;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The runs of a batch on some of whose messages a task fails, without saying on which. */
class FailedMessagesTest {
    private static final TaskError ERROR = new TaskError(Cause.CODE, true, "NoSuchStreet", "NoSuchStreet: x");

    @TempDir
    Path folder;
    private LeftOut leftOut;

    private FailedMessages run() {
        leftOut = new LeftOut(OnError.of("skip", null, "job"), null);
        return new FailedMessages(FailedRanges.in(folder.toString(), new Configuration()), leftOut);
    }

    private static List<Message> messages(int count) {
        return IntStream.range(0, count).mapToObj(offset -> {
            Message message = new Message(0, 0, "in", new byte[0], 0, null);
            message.offset = offset;
            return message;
        }).toList();
    }

    /** Runs the tasks of the groups in order, up to the first that fails; returns true if none does. */
    private static boolean passes(FailedMessages run, List<Group> groups, Set<Long> bad) throws Exception {
        for (Group group : groups) {
            List<Message> all = group.messages();
            if (all.stream().anyMatch(each -> bad.contains(each.offset()))) {
                run.files().add(run.run(), all.get(0).offset(), all.get(all.size() - 1).offset(), -1, ERROR);
                return false;
            }
            run.files().addPassed(run.run());
        }
        return true;
    }

    @Test
    void eachRunOfALargeBatchComesCloserToTheMessages() throws Exception {
        List<Message> messages = messages(30_000);
        Set<Long> bad = Set.of(300L, 500L, 20_000L);
        for (int runs = 1;; runs++) {
            assertTrue(runs <= 16, "more than 16 runs");
            FailedMessages run = run();
            List<Group> groups = run.group(messages, each -> null).groups();
            assertTrue(groups.size() <= 1000, groups.size() + " partitions");
            if (passes(run, groups, bad)) {
                assertEquals(messages.size() - 3, groups.stream().mapToInt(each -> each.messages().size()).sum());
                assertEquals(3, leftOut.skipped());
                return;
            }
        }
    }

    @Test
    void groupsHaveAMarkOnceATaskHasFailed() throws Exception {
        List<Message> messages = messages(10);
        FailedMessages first = run();
        FailedMessages.Grouping all = first.group(messages, each -> each.offset() == 1 ? "no text" : null);
        assertEquals(0, all.mark());
        assertTrue(!passes(first, all.groups(), Set.of(5L)));
        long mark = run().group(messages, each -> null).mark();
        assertNotEquals(0, mark);
        FailedMessages again = run();
        FailedMessages.Grouping same = again.group(messages, each -> null);
        assertEquals(mark, same.mark());
        passes(again, same.groups(), Set.of(5L));
        long other = run().group(messages, each -> null).mark();
        assertTrue(other != 0 && other != mark);
    }

    @Test
    void theSuccessOfARunIsNotedOnce() throws Exception {
        FailedMessages run = run();
        run.files().addPassed(run.run());
        Path note = folder.resolve("mqtt-failures/passed-" + run.run());
        FileTime first = FileTime.fromMillis(0);
        Files.setLastModifiedTime(note, first);
        run.files().addPassed(run.run());
        assertEquals(first, Files.getLastModifiedTime(note));
    }
}
