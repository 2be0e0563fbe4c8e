package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The folders that are synced before the messages of a checkpoint are acknowledged. */
class CheckpointNamesTest {
    @TempDir
    Path disk;

    @Test
    void thoseOfACheckpointAreSynced() throws Exception {
        Path checkpoint = Files.createDirectories(disk.resolve("checkpoints/0a1b/chk-7"));
        CheckpointNames names = new CheckpointNames(disk.resolve("checkpoints").toString(), null);
        assertEquals(List.of(checkpoint, disk.resolve("checkpoints/0a1b"), disk.resolve("checkpoints")),
                names.folders("0a1b", 7));
        names.force("0a1b", 7);
    }

    /** Such a savepoint acknowledges messages as a checkpoint does, and no later state follows it. */
    @Test
    void thoseOfTheSavepointWithWhichAJobStopsAreSynced() throws Exception {
        Path own = disk.resolve("savepoints/clean/0a1b");
        CheckpointNames names = new CheckpointNames(null, own.toString());
        assertEquals(List.of(), names.folders("0a1b", 8));
        Path savepoint = Files.createDirectories(own.resolve("savepoint-0a1b-123"));
        assertEquals(Set.of(savepoint, own, own.getParent(), disk.resolve("savepoints")),
                Set.copyOf(names.folders("0a1b", 8)));
        names.force("0a1b", 8);
    }
}
