package io.speck.spark.mqtt;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, without a process for each file that is written.
 *
 * <p>Hadoop sets the permissions of a new file by {@code chmod} where its native library is missing, as it is in
 * PySpark: some five processes for each micro-batch.
 */
public final class ForklessLocalFileSystem extends LocalFileSystem {
    public ForklessLocalFileSystem() {
        super(new Raw());
    }

    /** Returns a copy of a configuration, with this as the local file system. */
    static Configuration in(Configuration configuration) {
        Configuration copy = new Configuration(configuration);
        copy.setClassLoader(ForklessLocalFileSystem.class.getClassLoader());
        copy.setClass("fs.file.impl", ForklessLocalFileSystem.class, FileSystem.class);
        // The cache has one local file system for all configurations.
        copy.setBoolean("fs.file.impl.disable.cache", true);
        return copy;
    }

    private static final class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            java.nio.file.Path file = pathToFile(path).toPath();
            if (permission.getStickyBit() || !file.getFileSystem().supportedFileAttributeViews().contains("posix")) {
                super.setPermission(path, permission);
            } else {
                Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permission.toString()));
            }
        }
    }
}
