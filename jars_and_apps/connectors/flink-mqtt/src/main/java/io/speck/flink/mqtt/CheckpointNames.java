package io.speck.flink.mqtt;

import java.io.IOException;
import java.io.Serializable;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Makes the names of a completed checkpoint's files survive a power cut, where checkpoints are on a local disk: Flink syncs
 * the content of its files and not their names, so that a machine could come back without the checkpoint whose messages
 * were acknowledged.
 *
 * @param folder of the checkpoints of all jobs; null to do nothing
 */
record CheckpointNames(String folder) implements Serializable {
    /** Returns when the names of one checkpoint of a job are on disk; does nothing for one that is elsewhere. */
    void force(String job, long checkpoint) throws IOException {
        if (folder == null) {
            return;
        }
        Path ofJob = Path.of(folder, job);
        for (Path each : new Path[] {ofJob.resolve("chk-" + checkpoint), ofJob.resolve("shared"), ofJob, Path.of(folder)}) {
            if (Files.isDirectory(each)) {
                try (FileChannel names = FileChannel.open(each, StandardOpenOption.READ)) {
                    names.force(true);
                }
            }
        }
    }
}
