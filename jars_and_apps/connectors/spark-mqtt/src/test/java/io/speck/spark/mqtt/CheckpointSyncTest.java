package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Traces the system calls of a process that writes a journal and a checkpoint. */
class CheckpointSyncTest {
    @TempDir
    Path folder;

    @Test
    @Timeout(120)
    void everyNewFileIsForcedOnceAndItsFolderAfterIt() throws Exception {
        List<String> calls = trace();
        assertEquals(List.of(".0.part", "mqtt-batches"), calls.subList(0, 2), "the record, then its name");
        List<String> first = calls.subList(2, calls.size() - 2);
        assertTrue(first.containsAll(List.of("offsets/0", "commits/0", "offsets", "commits", "checkpoint")), calls::toString);
        for (String log : List.of("offsets", "commits")) {
            assertTrue(first.indexOf(log + "/0") < first.indexOf(log), calls::toString);
        }
        assertEquals(List.of("commits/1", "commits"), calls.subList(calls.size() - 2, calls.size()), "only what is new");
    }

    /** Returns the names of what a process forced to disk, in order. */
    private List<String> trace() throws Exception {
        Assumptions.assumeTrue(Files.isExecutable(Path.of("/usr/bin/strace")), "there is no strace on this machine");
        Path log = folder.resolve("calls");
        Process traced = new ProcessBuilder("/usr/bin/strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o",
                log.toString(), Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx300m", "-cp",
                System.getProperty("java.class.path"), Writer.class.getName(), folder.resolve("checkpoint").toString())
                .redirectErrorStream(true).redirectOutput(folder.resolve("out").toFile()).start();
        assertTrue(traced.waitFor(100, TimeUnit.SECONDS));
        assertEquals(0, traced.exitValue(), Files.readString(folder.resolve("out")));
        return Files.readAllLines(log).stream().filter(line -> line.contains("sync("))
                .map(line -> line.replaceAll(".*sync\\(\\d+<([^>]*)>.*", "$1")
                        .replaceAll(".*/((offsets|commits)/[^/]*)$|.*/", "$1")).toList();
    }

    /** Writes as a query does: a record, an entry of each log, and one more entry. */
    static final class Writer {
        private Writer() {}

        public static void main(String[] arguments) throws Exception {
            Path root = Path.of(arguments[0]);
            HadoopBatchJournal journal = new HadoopBatchJournal(
                    root.resolve("sources/0").toUri().toString(), new org.apache.hadoop.conf.Configuration());
            journal.write(0, new byte[100]);
            for (String log : List.of("offsets", "commits")) {
                Files.writeString(Files.createDirectories(root.resolve(log)).resolve("0"), "v1");
            }
            CheckpointSync sync = journal.checkpoint();
            sync.run();
            FileTime listed = Files.getLastModifiedTime(root.resolve("commits"));
            Files.writeString(root.resolve("commits/1"), "v1");
            Files.setLastModifiedTime(root.resolve("commits"), listed); // as if within the same tick
            sync.run();
            sync.run();
        }
    }

    @Test
    void aCheckpointElsewhereIsLeftAlone() {
        assertDoesNotThrow(() -> new CheckpointSync(null).run());
    }
}
