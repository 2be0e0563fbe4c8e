package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.Login;
import io.speck.mqtt.Spooled;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A disk that fails for a while, under a process that lives for weeks. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SpoolRenewalTest {
    private static final Login BROKER = Login.anonymous("tcp://127.0.0.1:1883");

    @TempDir
    Path root;
    private final ReentrantLock lock = new ReentrantLock();
    private final Retention retention = new Retention(lock, BROKER);

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void locked(Runnable action) {
        lock.lock();
        try {
            action.run();
        } finally {
            lock.unlock();
        }
    }

    private void hold(String payload) {
        OutgoingMessage message = new OutgoingMessage(new Delivery(), "t", bytes("t"), bytes(payload), null, bytes("job"),
                bytes("run/0/0/" + payload.length()));
        locked(() -> retention.hold(message));
    }

    private void end() {
        Runnable[] rest = new Runnable[1];
        locked(() -> rest[0] = retention.end());
        rest[0].run();
    }

    private List<Path> folders() throws IOException {
        try (Stream<Path> found = Files.walk(root)) {
            return found.filter(each -> each.getFileName().toString().matches("[0-9a-f]{32}")).toList();
        }
    }

    @Test
    void messagesAreHeldOnDiskAgainWhenItWorksAgain() throws Exception {
        locked(() -> retention.spoolIn(root));
        Path failed = folders().get(0);
        Files.delete(failed.resolve("lock"));
        Files.delete(failed);
        hold("before");
        retention.force(); // to a folder that is gone
        Spooled.await(root, "before");
        hold("afterwards");
        retention.force();
        Spooled.await(root, "afterwards");
        assertEquals(1, folders().size());
        end();
        List<SpoolFolder> left = SpoolFolder.abandoned(root, BROKER);
        assertEquals(List.of(1L, 2L), left.get(0).read(new Delivery()).stream().map(each -> each.deliveryNumber).toList());
    }

    /** As when the disk is full at the start of the process. */
    @Test
    void aRootThatCannotBeWrittenIsTriedAgain() throws Exception {
        Path late = root.resolve("late");
        Files.createFile(late);
        locked(() -> retention.spoolIn(late));
        hold("before");
        Files.delete(late);
        Spooled.await(root, "before");
        assertEquals(1, folders().size());
        end();
    }
}
