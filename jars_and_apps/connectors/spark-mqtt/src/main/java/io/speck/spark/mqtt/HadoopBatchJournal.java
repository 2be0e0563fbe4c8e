package io.speck.spark.mqtt;

import io.speck.connector.reader.BatchJournal;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UnsupportedFileSystemException;

/** Stores batch records as files in the source's part of the checkpoint, each on disk before it counts. */
final class HadoopBatchJournal implements BatchJournal {
    static final String FOLDER = "mqtt-batches";
    private static final String SUFFIX = ".batch";

    private final FileSystem files;
    private final Path folder;
    /** The folder's own path on a local file system; null on others. */
    private final java.nio.file.Path local;
    /** The same file system, which replaces a file in one step as far as it can, as HDFS does; null if it cannot. */
    private final FileContext replacing;

    HadoopBatchJournal(String checkpointLocation, Configuration configuration) throws IOException {
        this.folder = new Path(checkpointLocation, FOLDER);
        FileSystem found = folder.getFileSystem(ForklessLocalFileSystem.in(configuration));
        // Records have a check sum of their own; the local file system would write a second file for its own.
        this.files = found instanceof LocalFileSystem local ? local.getRawFileSystem() : found;
        files.mkdirs(folder);
        this.local = LocalFolder.of(folder, found);
        this.replacing = local == null ? contextOf(found, configuration) : null;
    }

    private static FileContext contextOf(FileSystem files, Configuration configuration) {
        try {
            return FileContext.getFileContext(files.getUri(), configuration);
        } catch (UnsupportedFileSystemException e) {
            return null;
        }
    }

    /** The rest of the query's checkpoint, two folders up: sources/NUMBER/mqtt-batches. */
    CheckpointSync checkpoint() {
        return new CheckpointSync(local == null ? null : local.getParent().getParent().getParent());
    }

    @Override
    public SortedMap<Long, byte[]> read() throws IOException {
        SortedMap<Long, byte[]> records = new TreeMap<>();
        for (FileStatus status : files.listStatus(folder)) {
            String name = status.getPath().getName();
            if (name.endsWith(SUFFIX)) {
                long start = Long.parseLong(name.substring(0, name.length() - SUFFIX.length()));
                records.put(start, read(status.getPath()));
            }
        }
        return records;
    }

    private byte[] read(Path path) throws IOException {
        try (InputStream in = files.open(path)) {
            return in.readAllBytes();
        }
    }

    @Override
    public void write(long start, byte[] record) throws IOException {
        Path whole = path(start);
        Path part = new Path(folder, "." + start + ".part");
        try (FSDataOutputStream out = files.create(part, true)) {
            out.write(record);
            out.hsync();
        }
        replace(part, whole);
        if (local != null) {
            CheckpointSync.force(local);
        }
    }

    /** Without the former record, a batch that began would begin anew with other messages. */
    private void replace(Path part, Path whole) throws IOException {
        if (replacing != null) {
            replacing.rename(part, whole, Options.Rename.OVERWRITE);
        } else if (!files.rename(part, whole)) { // a local file system replaces the file; others may refuse to
            files.delete(whole, false);
            if (!files.rename(part, whole)) {
                throw new IOException("cannot write batch record " + whole);
            }
        }
    }

    @Override
    public void delete(long start) throws IOException {
        try {
            files.delete(path(start), false);
        } catch (FileNotFoundException e) {
            return;
        }
    }

    private Path path(long start) {
        return new Path(folder, start + SUFFIX);
    }
}
