package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.Await;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.Topic;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * Kills the whole Spark process at random moments under load: in the end every message is counted once. A trial, since
 * tests/promises/test_mixed_brokers.py and test_real_time.py kill Spark too.
 */
@EnabledIfSystemProperty(named = "speck.trials", matches = "true")
class KillTest {
    private static final int KILLS = Integer.getInteger("speck.kills", 1);
    private static final int ROUND = 300;

    @TempDir
    Path folder;

    @Test
    @Timeout(600)
    void everyMessageIsCountedOnce() throws Exception {
        Map<String, Integer> sent = new HashMap<>();
        Random random = new Random();
        try (Mosquitto broker = Mosquitto.start(folder);
                Topic in = new Topic(broker.url(), "counts-in");
                Topic middle = new Topic(broker.url(), "counts-middle")) {
            Topic.session(broker.url(), "forward", "in");
            Topic.session(broker.url(), "count-in", "in");
            Topic.session(broker.url(), "count-middle", "middle");
            Process process = spark(broker);
            try {
                Process first = process;
                send(broker, sent);
                Await.until("first counts", () -> {
                    assertAlive(first);
                    return !in.all().isEmpty() && !middle.all().isEmpty();
                });
                for (int kill = 0; kill < KILLS; kill++) {
                    loadFor(broker, sent, 500 + random.nextInt(2_500));
                    process.destroyForcibly().waitFor();
                    send(broker, sent);
                    int before = in.all().size();
                    process = spark(broker);
                    Await.until("counting again", () -> in.all().size() > before);
                }
                assertCounts(process, sent, in);
                assertCounts(process, sent, middle);
            } finally {
                process.destroyForcibly().waitFor();
            }
        }
    }

    private void assertAlive(Process process) throws Exception {
        if (!process.isAlive()) {
            throw new AssertionError("spark ended: " + log());
        }
    }

    private Process spark(Mosquitto broker) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx600m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dspark.local.dir=" + folder,
                "-Dspeck.log=" + folder.resolve("spark.log")));
        command.addAll(List.of(System.getProperty("speck.jvmOptions", "").split(" ")));
        command.removeIf(String::isEmpty);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), CountingQuery.class.getName(),
                broker.url(), folder.resolve("checkpoints").toString()));
        return new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve("spark.out").toFile())).start();
    }

    private String log() throws IOException {
        return Files.readString(folder.resolve("spark.out")) + Files.readString(folder.resolve("spark.log"));
    }

    private static void loadFor(Mosquitto broker, Map<String, Integer> sent, long millis) throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        long end = System.nanoTime() + millis * 1_000_000;
        while (!over.get()) {
            send(broker, sent);
            Thread.sleep(20);
            over.set(System.nanoTime() > end);
        }
    }

    /** Many messages are alike, so a message taken for a repetition of another would show. */
    private static void send(Mosquitto broker, Map<String, Integer> sent) throws Exception {
        List<String> payloads = new ArrayList<>();
        for (int i = 0; i < ROUND; i++) {
            String payload = "v" + i % 3;
            payloads.add(payload);
            sent.merge(payload, 1, Integer::sum);
        }
        Topic.publish(broker.url(), "in", payloads);
    }

    private void assertCounts(Process process, Map<String, Integer> sent, Topic counts) throws Exception {
        Map<String, Integer> last = new HashMap<>();
        try {
            awaitCounts(sent, counts, last);
        } catch (AssertionError e) {
            throw new AssertionError("counted " + last + " of " + sent + "; alive: " + process.isAlive() + "; log: "
                    + log(), e);
        }
        assertEquals(sent, last);
    }

    private static void awaitCounts(Map<String, Integer> sent, Topic counts, Map<String, Integer> last) {
        Await.until("all counts, of " + sent, () -> {
            for (String each : counts.all()) {
                last.put(each.split("=")[0], Integer.valueOf(each.split("=")[1]));
            }
            return last.values().stream().mapToInt(each -> each).sum()
                    >= sent.values().stream().mapToInt(each -> each).sum();
        });
    }
}
