package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.Await;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.Topic;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Kills the whole Flink process at random moments under load: in the end every message is counted once. */
class KillTest {
    private static final int KILLS = Integer.getInteger("speck.kills", 1);
    private static final int ROUND = 300;
    private static final int BACKLOG = 3000;

    @TempDir
    Path folder;
    private final Map<String, Integer> sent = new HashMap<>();
    private final Random random = new Random();
    private Mosquitto broker;

    @Test
    @Timeout(600)
    void everyMessageIsCountedOnce() throws Exception {
        broker = Mosquitto.start(folder);
        Topic in = new Topic(broker.url(), "counts-in");
        Topic middle = new Topic(broker.url(), "counts-middle");
        Topic.session(broker.url(), "forward", "in");
        Topic.session(broker.url(), "count-in", "in");
        Topic.session(broker.url(), "count-middle", "middle");
        Process process = flink();
        try {
            for (int kill = 0; kill < KILLS; kill++) {
                loadUntilCounted(process, middle, 2_000 + random.nextInt(4_000));
                process.destroyForcibly().waitFor();
                send();
                process = flink();
            }
            send();
            assertCounts(process, in);
            assertCounts(process, middle);
        } finally {
            process.destroyForcibly().waitFor();
            in.close();
            middle.close();
            broker.close();
        }
    }

    private Process flink() throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(List.of(System.getProperty("speck.jvmOptions").split("\\s+")));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), CountingJob.class.getName(), broker.url(),
                folder.resolve("checkpoints").toString()));
        return new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve("out").toFile())).start();
    }

    /** Sends until a number of further messages were counted; the kill that follows falls anywhere between checkpoints. */
    private void loadUntilCounted(Process process, Topic counts, int more) {
        int before = counts.all().size();
        Await.until("counting goes on", () -> {
            int counted = counts.all().size();
            if (total() - counted < BACKLOG) {
                send();
            }
            assertAlive(process);
            return counted >= before + more;
        });
    }

    private int total() {
        return sent.values().stream().mapToInt(each -> each).sum();
    }

    private void assertAlive(Process process) throws Exception {
        if (!process.isAlive()) {
            throw new AssertionError("flink ended: " + Files.readString(folder.resolve("out")));
        }
    }

    /** Many messages are alike, so a message taken for a repetition of another would show. */
    private void send() throws Exception {
        List<String> payloads = new ArrayList<>();
        for (int i = 0; i < ROUND; i++) {
            payloads.add("v" + i % 3);
            sent.merge("v" + i % 3, 1, Integer::sum);
        }
        Topic.publish(broker.url(), "in", payloads);
    }

    private void assertCounts(Process process, Topic counts) {
        Map<String, Integer> last = new HashMap<>();
        try {
            Await.until("all are counted", () -> {
                assertAlive(process);
                for (String each : counts.all()) {
                    last.put(each.split("=")[0], Integer.valueOf(each.split("=")[1]));
                }
                return last.values().stream().mapToInt(each -> each).sum() >= total();
            });
        } catch (AssertionError e) {
            throw new AssertionError("counted " + last + " of " + sent + " in " + counts.all().size() + " messages", e);
        }
        assertEquals(sent, last);
        assertEquals(total(), counts.all().size());
    }
}
