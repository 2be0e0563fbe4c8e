package io.speck.flink.mqtt;

import java.io.IOException;
import java.io.Serializable;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * Makes the names of a completed checkpoint's files survive a power cut, where checkpoints are on a local disk: Flink syncs
 * the content of its files and not their names, so that a machine could come back without the checkpoint whose messages
 * were acknowledged. It does the same for the savepoint with which the job stops, which Flink reports as a checkpoint too.
 *
 * @param folder of the checkpoints of all jobs; null to do nothing for them
 * @param savepoints the folder of this job's savepoints; null to do nothing for them
 */
record CheckpointNames(String folder, String savepoints) implements Serializable {
    /** The folders of a job and of all jobs, in which that of its savepoints may be new. */
    private static final int ABOVE = 2;

    /** Returns when the names of one checkpoint of a job are on disk; does nothing for one that is elsewhere. */
    void force(String job, long checkpoint) throws IOException {
        for (Path each : folders(job, checkpoint)) {
            try (FileChannel names = FileChannel.open(each, StandardOpenOption.READ)) {
                names.force(true);
            } catch (NoSuchFileException e) {
                continue; // of a checkpoint that Flink has deleted, since a newer one is complete
            }
        }
    }

    /** Returns the folders whose names make up the checkpoint, as far as they exist. */
    List<Path> folders(String job, long checkpoint) throws IOException {
        List<Path> found = new ArrayList<>();
        if (folder != null) {
            Path ofJob = Path.of(folder, job);
            found.addAll(List.of(ofJob.resolve("chk-" + checkpoint), ofJob.resolve("shared"), ofJob, Path.of(folder)));
        }
        Path each = savepoints == null ? null : Path.of(savepoints);
        if (each != null && Files.isDirectory(each)) { // the job stops
            try (Stream<Path> entries = Files.list(each)) {
                entries.forEach(found::add);
            }
            for (int level = 0; level <= ABOVE && each != null && Files.isReadable(each); level++) {
                found.add(each);
                each = each.getParent();
            }
        }
        found.removeIf(name -> !Files.isDirectory(name));
        return found;
    }
}
