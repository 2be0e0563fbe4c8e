package io.speck.spark.mqtt;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * Forces the files of a query's checkpoint to disk, of a checkpoint on a local file system: Spark writes them without,
 * so that a power cut may take the last half minute of them. A message must not be acknowledged before.
 *
 * <p>Spark adds files under new names and never changes one, so a folder whose time of change is the same holds nothing
 * new, once that time is past: a file that is added within the same tick of the file system's clock does not change it.
 */
final class CheckpointSync {
    /** Longer than the tick of any file system's clock: 4 ms on ext4. */
    private static final long TICK_MILLIS = 1000;

    /** @param settled true if no file could be added any more without another time of change */
    private record Seen(FileTime changed, boolean settled, Set<Path> entries) {}

    private final Path root;
    private Map<Path, Seen> folders = new HashMap<>();

    /** @param root the checkpoint's folder; null if it is not on a local file system */
    CheckpointSync(Path root) {
        this.root = root;
    }

    /** Returns when all files that are there now would survive a power cut. */
    void run() throws IOException {
        if (root != null) {
            Map<Path, Seen> present = new HashMap<>();
            sync(root, present);
            folders = present;
        }
    }

    private void sync(Path folder, Map<Path, Seen> present) throws IOException {
        FileTime changed = Files.getLastModifiedTime(folder);
        Seen before = folders.get(folder);
        boolean settled = System.currentTimeMillis() - changed.toMillis() > TICK_MILLIS; // before it is listed
        Seen now = before != null && before.settled() && before.changed().equals(changed)
                ? before : new Seen(changed, settled, list(folder));
        present.put(folder, now);
        boolean added = false;
        for (Path entry : now.entries()) {
            boolean isNew = before == null || !before.entries().contains(entry);
            added |= isNew;
            if (Files.isDirectory(entry)) {
                sync(entry, present);
            } else if (isNew) {
                force(entry);
            }
        }
        if (added) {
            force(folder);
        }
    }

    private static Set<Path> list(Path folder) throws IOException {
        Set<Path> found = new HashSet<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
            entries.forEach(found::add);
            found.removeIf(entry -> entry.endsWith(HadoopBatchJournal.FOLDER)); // which syncs its files itself
        }
        return found;
    }

    /** Forces a file, or the names in a folder; one that is deleted meanwhile needs it no more. */
    static void force(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            channel.force(true);
        } catch (NoSuchFileException e) {
            return;
        }
    }
}
