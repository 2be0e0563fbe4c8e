package io.speck.spark.mqtt;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's manager of checkpoint files by renaming, with {@link ForklessLocalFileSystem} on local disks. A value of
 * {@code spark.sql.streaming.checkpointFileManagerClass}.
 */
public final class CheckpointFileManager extends FileSystemBasedCheckpointFileManager {
    /** Manages the files of a directory; Spark calls it by reflection. */
    public CheckpointFileManager(Path directory, Configuration configuration) {
        super(directory, ForklessLocalFileSystem.in(configuration));
    }
}
