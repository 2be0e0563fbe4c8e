package io.speck.spark.mqtt;

import io.speck.mqtt.failure.Cause;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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
 * task writes its range when it fails, and so before its query ends; the query's next run reads them. Other files there
 * name the runs in which a task succeeded, and the messages on which real-time queries failed ({@link RealTimeFailures}).
 *
 * @param folder where the files are
 * @param configuration of the file system
 */
record FailedRanges(String folder, SerializableConfiguration configuration) implements Serializable {
    private static final Pattern NAME = Pattern.compile("(\\d{1,18})-(\\d{1,18})");
    private static final String PASSED = "passed-";
    private static final String MESSAGE = "message-";

    /**
     * Messages, one of which made a task fail.
     *
     * @param first offset of the first one
     * @param last offset of the last one
     * @param reason the error in one line
     * @param signature the same for the same error
     * @param cause what it comes from
     * @param runs the runs in which a task failed on this very message with this error, one for each failure
     */
    record Range(long first, long last, String reason, String signature, Cause cause, List<String> runs) {
        private static final int LINES = 4;

        boolean isOne() {
            return first == last;
        }

        boolean holds(long offset) {
            return first <= offset && offset <= last;
        }

        /**
         * The range after one more failure: the list of runs begins anew with another error. A failure among other
         * messages counts as the first one only.
         */
        Range after(Range former, boolean alone) {
            if (former == null || !former.signature.equals(signature)) {
                return this;
            }
            if (!alone && !former.runs.isEmpty()) {
                return former;
            }
            List<String> all = new ArrayList<>(former.runs);
            all.addAll(runs);
            return new Range(first, last, reason, signature, cause, all);
        }

        String text() {
            return String.join("\n", reason, signature, cause.name(), String.join(" ", runs));
        }

        /** Reads a text of {@link #text}, or of a version that wrote the reason alone. */
        static Range parse(long first, long last, String text) {
            String[] lines = text.split("\n", -1);
            if (lines.length != LINES) {
                return new Range(first, last, text, "", Cause.MESSAGE, List.of());
            }
            List<String> runs = lines[3].isEmpty() ? List.of() : List.of(lines[3].split(" "));
            return new Range(first, last, lines[0], lines[1], Cause.valueOf(lines[2]), runs);
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
     * @param run of the query
     * @param first offset of the task's first message
     * @param last offset of the task's last message
     * @param current offset of the message that the task was working on; -1 if that is not known, or it had read all
     */
    void add(String run, long first, long last, long current, TaskError error) throws IOException {
        if (error.cause() == Cause.ELSEWHERE) {
            return;
        }
        boolean known = current >= 0 && !error.inBatches();
        long from = known ? current : first;
        long to = known ? current : last;
        List<String> runs = from == to ? List.of(run) : List.of();
        Range range = new Range(from, to, error.reason(), error.signature(), error.cause(), runs);
        write(from + "-" + to, range.after(read(from, to), first == last).text());
    }

    private void write(String name, String text) throws IOException {
        FileSystem files = files();
        files.mkdirs(new Path(folder));
        try (OutputStream out = files.create(new Path(folder, name), true)) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
    }

    private Range read(long first, long last) throws IOException {
        try {
            return Range.parse(first, last, text(new Path(folder, first + "-" + last)));
        } catch (FileNotFoundException e) {
            return null;
        }
    }

    /** Notes that a task of a run has succeeded, once: hundreds of tasks do, and Hadoop starts a process for each file. */
    void addPassed(String run) throws IOException {
        if (!hasPassed(run)) {
            write(PASSED + run, "");
        }
    }

    /** True if a task of this run has succeeded. */
    boolean hasPassed(String run) throws IOException {
        return files().exists(new Path(folder, PASSED + run));
    }

    List<Range> read() throws IOException {
        List<Range> ranges = new ArrayList<>();
        for (FileStatus status : list()) {
            Matcher name = NAME.matcher(status.getPath().getName());
            if (name.matches()) {
                ranges.add(Range.parse(Long.parseLong(name.group(1)), Long.parseLong(name.group(2)),
                        text(status.getPath())));
            }
        }
        return ranges;
    }

    /** Stores the failure on the message with this digest, and replaces the former one. */
    void addMessage(String digest, String failure) throws IOException {
        write(MESSAGE + digest, failure);
    }

    /** Returns the failures on messages, by their digests. */
    Map<String, String> messages() throws IOException {
        Map<String, String> failures = new HashMap<>();
        for (FileStatus status : list()) {
            String name = status.getPath().getName();
            if (name.startsWith(MESSAGE)) {
                failures.put(name.substring(MESSAGE.length()), text(status.getPath()));
            }
        }
        return failures;
    }

    /** Forgets the failures on a message. */
    void deleteMessage(String digest) throws IOException {
        files().delete(new Path(folder, MESSAGE + digest), false);
    }

    private FileStatus[] list() throws IOException {
        try {
            return files().listStatus(new Path(folder));
        } catch (FileNotFoundException e) {
            return new FileStatus[0];
        }
    }

    private String text(Path path) throws IOException {
        try (InputStream in = files().open(path)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /** Forgets a range whose batch is committed. */
    void delete(Range range) throws IOException {
        files().delete(new Path(folder, range.first() + "-" + range.last()), false);
    }

    /** Forgets which runs had tasks that succeeded. */
    void deletePassed() throws IOException {
        for (FileStatus status : list()) {
            if (status.getPath().getName().startsWith(PASSED)) {
                files().delete(status.getPath(), false);
            }
        }
    }
}
