package io.speck.sql;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads the frames of any cut as rows before the windows, or as results of a query without any, for the rest. */
final class FrameReader {
    static final String NO_FRAME = "it is not a frame of this query";
    private static final int HEAD = 3; // version, cut and progress
    private static final RowDecoder JSON = new RowDecoder("json", List.of());
    private static final String TIME = "timestamp";
    static final Column WHOLE = column("bigint");
    private static final Map<String, Double> NOT_FINITE = Map.of("Infinity", Double.POSITIVE_INFINITY, "-Infinity",
            Double.NEGATIVE_INFINITY, "NaN", Double.NaN);

    private final SqlProgram program;
    /** The columns that the query reads, and those of them behind the condition. */
    private final List<Column> read;
    private final int[] kept;
    /** The columns before the windows, those of them that are no constants, and those with totals. */
    private final List<Column> values;
    private final int[] computed;
    private final List<Column> totals;
    /** False for a query without windows, whose rows are results. */
    private final boolean windowed;

    FrameReader(SqlProgram program, List<Column> read, List<Column> output, Map<?, ?> takes) {
        this.program = program;
        windowed = program.windows() != null;
        this.read = read.stream().map(each -> column(each.type())).toList();
        kept = SqlProgram.indexes(takes.get("kept"));
        computed = SqlProgram.indexes(takes.get("computed"));
        values = new ArrayList<>();
        totals = new ArrayList<>();
        if (windowed) {
            addColumns(program.windows());
        } else {
            output.forEach(each -> values.add(column(each.type())));
        }
    }

    private void addColumns(SqlProgram.Windows windows) {
        values.add(column(TIME));
        windows.keys().forEach(each -> values.add(column(each)));
        totals.addAll(values);
        windows.merges().forEach(each -> {
            values.add(column(each.type()));
            totals.add(column(each.total()));
        });
    }

    /** A column of a frame, which has no name there. */
    static Column column(String type) {
        return new Column("", type, true, "", 0);
    }

    /** @throws UnparsableMessageException if the message is no frame of the query */
    Frame frame(String topic, byte[] content) {
        if (!(RowDecoder.json(RowDecoder.text(content)) instanceof List<?> data) || data.size() < HEAD) {
            throw new UnparsableMessageException(NO_FRAME);
        }
        long[] head = head(data);
        String input = Frame.input(topic);
        List<?> written = data.subList(HEAD, data.size());
        if (head[0] == Frame.VERSION && head[1] == Frame.NO_CUT && written.isEmpty()) {
            return new Frame(input, head[2], List.of());
        }
        List<Object[]> rows = new ArrayList<>();
        Former before = head[0] < Frame.TIMES_VERSION ? null : new Former(head[2]);
        for (Object each : head[0] == Frame.VERSION ? List.of(written) : written) {
            if (!(each instanceof List<?> values)) {
                throw new UnparsableMessageException(NO_FRAME);
            }
            Object[] row = row(head[1], values, before);
            if (windowed && row != null && row[0] == null) {
                throw new UnparsableMessageException(NO_FRAME);
            }
            if (row != null) {
                rows.add(row);
            }
        }
        return new Frame(input, head[2], rows);
    }

    private static long[] head(List<?> data) {
        long[] head = new long[HEAD];
        for (int at = 0; at < HEAD; at++) {
            if (!(JSON.read(WHOLE, data.get(at)) instanceof Long number)) {
                throw new UnparsableMessageException(NO_FRAME);
            }
            head[at] = number;
        }
        if (head[2] < 0 || head[2] > Times.HIGHEST) {
            throw new UnparsableMessageException(NO_FRAME);
        }
        if (head[0] < Frame.VERSION || head[0] > Frame.TIMES_VERSION) {
            throw new UnparsableMessageException("the frame has version " + head[0] + " (expected at most "
                    + Frame.TIMES_VERSION + ")");
        }
        if (head[1] < Frame.NO_CUT || head[1] > Frame.PARTIALS || head[0] != Frame.VERSION && head[1] == Frame.NO_CUT) {
            throw new UnparsableMessageException(NO_FRAME);
        }
        return head;
    }

    /** Returns the row before the windows, or the result; null if the condition leaves it out. */
    private Object[] row(long cut, List<?> written, Former before) {
        if (cut == Frame.COLUMNS && windowed) {
            return program.totals(placed(written, all(read), read, new Object[read.size()], before));
        }
        if (cut == Frame.COLUMNS || cut == Frame.FILTER) {
            return program.totalsBehindCondition(placed(written, kept, read, new Object[read.size()], before));
        }
        if (cut == Frame.ROWS) {
            return program.totalsOf(placed(written, computed, values, program.constants(computed), before));
        }
        if (cut == Frame.PARTIALS && windowed) {
            return placed(written, all(totals), totals, new Object[totals.size()], before);
        }
        throw new UnparsableMessageException(NO_FRAME);
    }

    /** The times of the row before, by the places of its values; those before the first row are the progress. */
    private static final class Former {
        private final long progress;
        private final Map<Integer, Long> times = new HashMap<>();

        Former(long progress) {
            this.progress = progress;
        }

        Long next(int place, long difference) {
            try {
                long time = Math.addExact(times.getOrDefault(place, progress), difference);
                times.put(place, time);
                return time;
            } catch (ArithmeticException e) {
                throw new UnparsableMessageException(NO_FRAME);
            }
        }
    }

    private static int[] all(List<Column> columns) {
        int[] found = new int[columns.size()];
        for (int at = 0; at < found.length; at++) {
            found[at] = at;
        }
        return found;
    }

    /** Puts the values of a frame into a row, those of one that has others where they are missing. */
    private static Object[] placed(List<?> written, int[] places, List<Column> columns, Object[] row, Former before) {
        if (written.size() != places.length) {
            throw new UnparsableMessageException(NO_FRAME);
        }
        for (int at = 0; at < places.length; at++) {
            Column column = columns.get(places[at]);
            Object value = value(column, written.get(at));
            boolean difference = before != null && column.type().equals(TIME) && value != null;
            row[places[at]] = difference ? before.next(at, (Long) value) : value;
        }
        return row;
    }

    static Object value(Column column, Object written) {
        if (written == null) {
            return null;
        }
        boolean outOfRange = column.type().equals("double") && written instanceof String;
        // Times are numbers in a frame, and whole ones have 64 bits.
        boolean whole = column.type().equals("int") || column.type().equals(TIME);
        Object value = outOfRange ? NOT_FINITE.get(written) : JSON.read(whole ? WHOLE : column, written);
        if (value == null) {
            throw new UnparsableMessageException(NO_FRAME);
        }
        return value;
    }
}
