package io.speck.spark.mqtt;

import io.speck.mqtt.failure.Blame;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The messages on which tasks failed, as files in the source's part of the checkpoint, one for each range of offsets. A
 * task writes its range when it fails, and so before its query ends; the query's next run reads them.
 *
 * @param folder where the files are
 * @param configuration of the file system
 */
record FailedRanges(String folder, SerializableConfiguration configuration) implements Serializable {
    private static final Pattern NAME = Pattern.compile("(\\d{1,18})-(\\d{1,18})");
    private static final int DEEPEST = 50;

    /**
     * Messages, one of which made a task fail.
     *
     * @param first offset of the first one
     * @param last offset of the last one
     * @param reason the error in one line
     */
    record Range(long first, long last, String reason) {
        boolean isOne() {
            return first == last;
        }

        boolean holds(long offset) {
            return first <= offset && offset <= last;
        }
    }

    static FailedRanges in(String checkpointLocation, Configuration configuration) {
        return new FailedRanges(checkpointLocation + "/mqtt-failures", new SerializableConfiguration(configuration));
    }

    private FileSystem files() throws IOException {
        FileSystem found = new Path(folder).getFileSystem(configuration.value());
        return found instanceof LocalFileSystem local ? local.getRawFileSystem() : found;
    }

    /**
     * Notes that a task failed, if one of its messages may be the cause.
     *
     * @param first offset of the task's first message
     * @param last offset of the task's last message
     * @param current offset of the message that the task was working on; -1 if it had read all
     */
    void add(long first, long last, long current, Throwable error) throws IOException {
        if (!Blame.message(error)) {
            return;
        }
        boolean known = current >= 0 && !inBatches(error);
        Range range = known ? new Range(current, current, Blame.reason(error)) : new Range(first, last, Blame.reason(error));
        FileSystem files = files();
        files.mkdirs(new Path(folder));
        try (OutputStream out = files.create(new Path(folder, range.first() + "-" + range.last()), true)) {
            out.write(range.reason().getBytes(StandardCharsets.UTF_8));
        }
    }

    /** True for an error of a Python function, which gets rows in batches ahead of its results. */
    private static boolean inBatches(Throwable error) {
        Throwable each = error;
        for (int depth = 0; each != null && depth < DEEPEST; depth++) {
            String text = each.getClass().getName() + " " + each.getMessage();
            if (text.contains("PythonException") || text.contains("Python worker")) {
                return true;
            }
            each = each.getCause();
        }
        return false;
    }

    List<Range> read() throws IOException {
        List<Range> ranges = new ArrayList<>();
        try {
            for (FileStatus status : files().listStatus(new Path(folder))) {
                Matcher name = NAME.matcher(status.getPath().getName());
                if (name.matches()) {
                    ranges.add(new Range(Long.parseLong(name.group(1)), Long.parseLong(name.group(2)),
                            reason(status.getPath())));
                }
            }
        } catch (FileNotFoundException e) {
            return List.of();
        }
        return ranges;
    }

    private String reason(Path path) throws IOException {
        try (InputStream in = files().open(path)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /** Forgets a range whose batch is committed. */
    void delete(Range range) throws IOException {
        files().delete(new Path(folder, range.first() + "-" + range.last()), false);
    }
}
