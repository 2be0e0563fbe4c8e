package io.speck.sql;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;

/** A join of the rows of two tables. Engines keep the rows as texts, whose form does not depend on the columns. */
public final class Join {
    private static final String NO_BOUNDS = "the join has no bounds of time (expected one without windows)";

    private final SqlProgram program;
    /** The names of the inputs begin with those of their tables. */
    private final List<String> tables = new ArrayList<>();
    private final List<SqlProgram> sides = new ArrayList<>();
    private final List<List<Column>> columns = new ArrayList<>();
    private final int keys;
    /** Null for a join in windows. */
    private final long[] bounds;
    private final boolean distinct;
    /** By side, true if a result depends on values of its rows, other than the key that both have. */
    private final boolean[] used;

    /** @param results the expressions of a result and of its condition, in their plain form; elements may be null */
    Join(SqlProgram program, Map<?, ?> data, List<?> results) {
        this.program = program;
        ((List<?>) data.get("tables")).forEach(each -> tables.add((String) each));
        for (Object each : (List<?>) data.get("sides")) {
            SqlProgram side = new SqlProgram((Map<?, ?>) each);
            List<Column> found = new ArrayList<>(List.of(FrameReader.WHOLE));
            side.windows().keys().forEach(type -> found.add(FrameReader.column(type)));
            sides.add(side);
            columns.add(found);
        }
        keys = Integer.parseInt(SqlProgram.number(data.get("keys")));
        bounds = data.get("bounds") instanceof List<?> found
                ? found.stream().mapToLong(each -> Long.parseLong(SqlProgram.number(each))).toArray() : null;
        distinct = Boolean.TRUE.equals(data.get("distinct"));
        int first = 2; // behind start and end of the window
        int second = first + columns.get(0).size();
        used = new boolean[] {refers(results, first, second),
                refers(results, second, second + columns.get(1).size())};
    }

    /** True if one of the expressions, in their plain form, refers to a column from one index to before another. */
    private static boolean refers(Object expression, int from, int to) {
        if (!(expression instanceof List<?> parts)) {
            return false;
        }
        if (parts.size() == 2 && "col".equals(parts.get(0)) && parts.get(1) instanceof JsonParser.Number number) {
            int index = Integer.parseInt(number.text());
            return from <= index && index < to;
        }
        return parts.stream().anyMatch(each -> refers(each, from, to));
    }

    /** @throws UnparsableMessageException if the message is no frame of a table */
    Frame frame(String topic, byte[] content) {
        String input = Frame.input(topic);
        int end = input.indexOf('-');
        int side = tables.indexOf(end < 0 ? input : input.substring(0, end));
        if (side < 0) {
            throw new UnparsableMessageException(FrameReader.NO_FRAME);
        }
        Frame frame = sides.get(side).frame(topic, content);
        return new Frame(frame.input(), frame.progress(), frame.rows(), side);
    }

    /** Returns the windows; of a join by time the steps of the progress. */
    public SqlProgram.Windows windows() {
        return sides.get(0).windows();
    }

    /** True for a join of rows whose times differ by no more than bounds; false for one in windows. */
    public boolean byTime() {
        return bounds != null;
    }

    /** True if equal results of a window are one. */
    public boolean distinct() {
        return distinct;
    }

    /** Returns the row of a table for an engine: its time, the number of the table, its key, and all of it. */
    Object[] tagged(int side, Object[] row) {
        Object[] key = Arrays.copyOfRange(row, 1, keys + 1);
        return new Object[] {row[0], (long) side, Frame.array(key), SqlProgram.kept(row)};
    }

    /** Returns the results of the rows of one key in a window. */
    public List<String> results(long start, long end, List<String> left, List<String> right) {
        Collection<String> found = distinct ? new LinkedHashSet<>() : new ArrayList<>();
        List<Object[]> others = rows(1, right);
        for (Object[] one : rows(0, left)) {
            for (Object[] other : others) {
                String result = result(start, end, one, other);
                if (result != null) {
                    found.add(result);
                }
            }
        }
        return List.copyOf(found);
    }

    /** The rows of a side; one, without values, if equal results are one and none depends on the values. */
    private List<Object[]> rows(int side, List<String> texts) {
        List<Column> read = columns.get(side);
        return distinct && !used[side] && !texts.isEmpty() ? List.<Object[]>of(new Object[read.size()])
                : texts.stream().map(each -> SqlProgram.row(each, read)).toList();
    }

    /** Returns the result of two rows, whose window has these bounds; null if the condition leaves it out. */
    public String result(long start, long end, String left, String right) {
        return result(start, end, SqlProgram.row(left, columns.get(0)), SqlProgram.row(right, columns.get(1)));
    }

    private String result(long start, long end, Object[] left, Object[] right) {
        List<Object> row = new ArrayList<>(List.of(start, end));
        row.addAll(Arrays.asList(left));
        row.addAll(Arrays.asList(right));
        return program.result(row.toArray());
    }

    /** True if rows of these times are joined. */
    public boolean joins(long left, long right) {
        return right - left >= bound(0) && right - left <= bound(1);
    }

    /** Returns the last time of rows of the other table that a row of this time and table is joined with. */
    public long lastOther(int side, long time) {
        return side == 0 ? time + bound(1) : time - bound(0);
    }

    private long bound(int at) {
        if (bounds == null) {
            throw new IllegalStateException(NO_BOUNDS);
        }
        return bounds[at];
    }
}
