package io.speck.spark.mqtt;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/** Folders that are on a disk of this machine. */
final class LocalFolder {
    private LocalFolder() {}

    /** Returns the absolute path of a location in Hadoop's form; null if its file system is not the local one. */
    static java.nio.file.Path of(Path location, FileSystem files) {
        return files instanceof LocalFileSystem disk ? disk.pathToFile(location).getAbsoluteFile().toPath() : null;
    }

    /** Does the same for the text of a location; null or empty for none. */
    static String of(String location, Configuration configuration) {
        if (location == null || location.isEmpty()) {
            return null;
        }
        try {
            Path path = new Path(location);
            java.nio.file.Path found = of(path, path.getFileSystem(configuration));
            return found == null ? null : found.toString();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
