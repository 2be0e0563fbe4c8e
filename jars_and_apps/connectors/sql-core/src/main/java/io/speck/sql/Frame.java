package io.speck.sql;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * A message to the windows of a part of a query.
 *
 * @param input the last level of its topic, which names the input
 * @param progress a time in milliseconds: no later row of the input belongs to a window that ends before it
 * @param rows the time, the keys, and a total for each merge, of each row; the results of a query without windows
 * @param side the number of its table, of a join
 */
public record Frame(String input, long progress, List<Object[]> rows, int side) {
    static final int VERSION = 1;
    static final int ROWS_VERSION = 2;
    /** As the version before, with each time as the difference to that of the row before it, or to the progress. */
    static final int TIMES_VERSION = 3;
    static final int MOST_ROWS = 64; // of a frame
    static final int MOST_BYTES = 8 * 1024; // of a frame with several rows, if each had its own times
    private static final int HEAD = 4; // of values(), before the rows
    /** The number of a frame without a row, and those of the cuts. */
    static final int NO_CUT = 0;
    static final int COLUMNS = 1;
    static final int FILTER = 2;
    static final int ROWS = 3;
    static final int PARTIALS = 4;

    Frame(String input, long progress, List<Object[]> rows) {
        this(input, progress, rows, 0);
    }

    /** Returns all of it as values: input, progress, side and the number of rows, then the values of each row. */
    Object[] values() {
        List<Object> found = new ArrayList<>();
        Collections.addAll(found, input, progress, (long) side, (long) rows.size());
        rows.forEach(each -> Collections.addAll(found, each));
        return found.toArray();
    }

    /** Returns the frame with these {@link #values}. */
    static Frame of(Object[] values) {
        int count = ((Long) values[HEAD - 1]).intValue();
        int width = count == 0 ? 0 : (values.length - HEAD) / count;
        List<Object[]> rows = new ArrayList<>();
        for (int row = 0; row < count; row++) {
            rows.add(Arrays.copyOfRange(values, HEAD + row * width, HEAD + (row + 1) * width));
        }
        return new Frame((String) values[0], (Long) values[1], rows, ((Long) values[2]).intValue());
    }

    /** Returns the name of the input that writes a topic: its last level. */
    static String input(String topic) {
        return topic.substring(topic.lastIndexOf('/') + 1);
    }

    static int number(String cut) {
        return switch (cut) {
            case "columns" -> COLUMNS;
            case "filter" -> FILTER;
            case "rows" -> ROWS;
            case "partials" -> PARTIALS;
            default -> throw new IllegalArgumentException("cut '" + cut + "' is not known to this connector"
                    + " (expected the connector of the server's version)");
        };
    }

    /** Returns the text of a frame: an array of JSON with version, number of the cut, progress and values. */
    static String text(int cut, long progress, Object... values) {
        Object[] all = new Object[values.length + 3];
        all[0] = VERSION;
        all[1] = cut;
        all[2] = Math.max(progress, 0);
        System.arraycopy(values, 0, all, 3, values.length);
        return array(all);
    }

    /** Merges frames of one row, of the same cut and progress, into frames of at most this number of rows, in order. */
    static List<String> joined(List<String> frames, int most) {
        List<String> found = new ArrayList<>();
        StringBuilder text = new StringBuilder();
        int rows = 0;
        int bytes = 0;
        for (String frame : frames) {
            int head = head(frame);
            String row = "[" + frame.substring(head + 1);
            int length = row.getBytes(StandardCharsets.UTF_8).length;
            if (rows > 0 && (rows == most || bytes + length > MOST_BYTES)) {
                found.add(text.append(']').toString());
                rows = 0;
                bytes = 0;
            }
            if (rows == 0) {
                text = new StringBuilder("[" + ROWS_VERSION).append(frame, frame.indexOf(','), head);
            }
            text.append(',').append(row);
            rows++;
            bytes += length;
        }
        if (rows > 0) {
            found.add(text.append(']').toString());
        }
        return found;
    }

    /** Returns the place of the comma behind version, cut and progress. */
    private static int head(String frame) {
        return frame.indexOf(',', frame.indexOf(',', frame.indexOf(',') + 1) + 1);
    }

    /** Returns values as an array of JSON. */
    static String array(Object[] values) {
        StringBuilder text = new StringBuilder("[");
        for (int at = 0; at < values.length; at++) {
            text.append(at > 0 ? "," : "").append(written(values[at]));
        }
        return text.append(']').toString();
    }

    /** JSON has no numbers that are not finite, and a sum of doubles may have left their range. */
    private static String written(Object value) {
        if (value instanceof Double number) {
            return Double.isFinite(number) ? Numbers.text(number) : "\"" + number + "\"";
        }
        return value instanceof String text ? RowEncoder.quoted(text) : String.valueOf(value);
    }
}
