package io.speck.sql;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/** Writes the rows of an input job as frames. */
final class FrameWriter {
    private static final int MOST_READ_BYTES = 32 * 1024; // of the messages whose rows are in a frame with differences

    private final int cut;
    private final int most;
    private final int version;
    /** True for the values that are times. */
    private final boolean[] times;

    /** A row, and its text without differences, which decides the order of rows and where frames end. */
    private record Written(String text, Object[] row) {
        int bytes() {
            return text.getBytes(StandardCharsets.UTF_8).length;
        }
    }

    /**
     * @param cut its number
     * @param most the number of rows of a frame, or of the messages whose rows are in it
     * @param version of a frame with an array for each row
     * @param columns of the rows
     */
    FrameWriter(int cut, int most, int version, List<Column> columns) {
        this.cut = cut;
        this.most = most;
        this.version = version;
        times = new boolean[columns.size()];
        for (int at = 0; at < times.length; at++) {
            times[at] = columns.get(at).type().equals("timestamp");
        }
    }

    /** True if a frame with the rows of this number of messages, and of bytes, has to be sent. */
    boolean isFull(int messages, long bytes) {
        return messages >= most || bytes >= (version < Frame.TIMES_VERSION ? Frame.MOST_BYTES : MOST_READ_BYTES);
    }

    /** Returns the frame of rows in their order. */
    String frame(List<Object[]> rows, long progress) {
        boolean plain = rows.size() == 1 && version < Frame.TIMES_VERSION;
        return plain ? Frame.text(cut, progress, rows.get(0)) : several(rows, progress);
    }

    /** Returns frames of rows, in an order that the rows alone decide. */
    List<String> frames(List<Object[]> rows, long progress) {
        List<Written> sorted = rows.stream().map(each -> new Written(Frame.array(each), each))
                .sorted(Comparator.comparing(Written::text)).toList();
        if (most == 1) {
            return sorted.stream().map(each -> Frame.text(cut, progress, each.row)).toList();
        }
        List<String> found = new ArrayList<>();
        List<Object[]> waiting = new ArrayList<>();
        int bytes = 0;
        for (Written each : sorted) {
            int length = each.bytes();
            if (!waiting.isEmpty() && (waiting.size() == most || bytes + length > Frame.MOST_BYTES)) {
                found.add(several(waiting, progress));
                waiting.clear();
                bytes = 0;
            }
            waiting.add(each.row);
            bytes += length;
        }
        if (!waiting.isEmpty()) {
            found.add(several(waiting, progress));
        }
        return found;
    }

    private String several(List<Object[]> rows, long progress) {
        StringBuilder text = new StringBuilder("[").append(version).append(',').append(cut).append(',')
                .append(Math.max(progress, 0));
        long[] before = new long[times.length];
        Arrays.fill(before, Math.max(progress, 0));
        for (Object[] row : rows) {
            text.append(',').append(Frame.array(version < Frame.TIMES_VERSION ? row : differences(row, before)));
        }
        return text.append(']').toString();
    }

    /** Returns a row with differences in the place of times, and changes the times before to its own. */
    private Object[] differences(Object[] row, long[] before) {
        Object[] found = row.clone();
        for (int at = 0; at < found.length; at++) {
            if (times[at] && found[at] instanceof Long time) {
                found[at] = time - before[at];
                before[at] = time;
            }
        }
        return found;
    }
}
