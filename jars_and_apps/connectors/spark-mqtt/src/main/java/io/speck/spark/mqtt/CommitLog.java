package io.speck.spark.mqtt;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Reads from a query's checkpoint which batches Spark has committed.
 *
 * <p>Spark tells a source so only when it builds the next batch, which a query that stops never does. The layout is
 * Spark's: {@code commits/BATCH}, and {@code offsets/BATCH} with a version, metadata, and a line for each source.
 */
final class CommitLog {
    private static final String VERSION = "v1";
    private static final Pattern UNFINISHED = Pattern.compile("\\.+\\d+\\..*tmp(\\.crc)?");
    private static final int HEADER_LINES = 2;

    private final FileSystem files;
    private final Path checkpoint;
    private final int source;

    /** @param location the source's part of the checkpoint: {@code CHECKPOINT/sources/NUMBER} */
    CommitLog(String location, Configuration configuration) throws IOException {
        Path own = new Path(location);
        this.checkpoint = own.getParent().getParent();
        this.source = Integer.parseInt(own.getName());
        this.files = own.getFileSystem(configuration);
    }

    /**
     * Deletes what a killed process left of an entry that it was writing. In real-time mode Spark has no offsets of a
     * batch that is not committed, and refuses to begin with the first batch when it finds anything among the commits.
     */
    void deleteUnfinished() throws IOException {
        FileStatus[] found;
        try {
            found = files.listStatus(new Path(checkpoint, "commits"));
        } catch (FileNotFoundException e) {
            return;
        }
        for (FileStatus each : found) {
            if (UNFINISHED.matcher(each.getPath().getName()).matches()) {
                files.delete(each.getPath(), false);
            }
        }
    }

    /** Returns the end offset of the last committed batch; empty if there is none, or its form is not known. */
    OptionalLong end() throws IOException {
        OptionalLong batch;
        try {
            batch = Arrays.stream(files.listStatus(new Path(checkpoint, "commits")))
                    .map(each -> each.getPath().getName()).filter(each -> each.matches("\\d+"))
                    .mapToLong(Long::parseLong).max();
        } catch (FileNotFoundException e) {
            return OptionalLong.empty();
        }
        return batch.isEmpty() ? batch : offset(batch.getAsLong());
    }

    private OptionalLong offset(long batch) throws IOException {
        List<String> lines;
        try (InputStream in = files.open(new Path(checkpoint, "offsets/" + batch))) {
            lines = new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
        }
        int line = HEADER_LINES + source;
        if (lines.size() <= line || !lines.get(0).equals(VERSION) || lines.get(line).equals("-")) {
            return OptionalLong.empty();
        }
        return OptionalLong.of(MqttOffset.parse(lines.get(line)).position());
    }
}
