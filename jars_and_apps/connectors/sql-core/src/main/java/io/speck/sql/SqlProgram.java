package io.speck.sql;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A query as {@code speck.sql.program} writes it: rows that fulfil a condition, columns of them, perhaps windows, and
 * behind those a condition and columns once more.
 */
public final class SqlProgram {
    private static final String VERSION = "1";
    private static final int CACHED = 64;
    /** The programs of this process, by their texts: rows name theirs. */
    private static final Map<String, SqlProgram> PROGRAMS = Collections.synchronizedMap(
            new LinkedHashMap<>(CACHED, 0.75f, true) {
                private static final long serialVersionUID = 1L;

                @Override
                protected boolean removeEldestEntry(Map.Entry<String, SqlProgram> eldest) {
                    return size() > CACHED;
                }
            });

    private final RowDecoder decoder;
    private final Expression where;
    private final Expression[] columns;
    private final Windows windows;
    private final Expression having;
    private final Expression[] select;
    private final RowEncoder encoder;

    /**
     * An aggregation in windows of event time. The rows before it are the time, the keys, and an argument of each
     * merge; those behind it are start and end of the window, the keys, and the totals.
     */
    public record Windows(long sizeMillis, long slideMillis, long watermarkMillis, List<String> keys,
            List<Merge> merges) {}

    private SqlProgram(Map<?, ?> data) {
        if (!VERSION.equals(number(data.get("version")))) {
            throw new IllegalArgumentException("the query has version " + number(data.get("version"))
                    + ", and this connector knows " + VERSION + " (expected a connector of the server's version)");
        }
        Map<?, ?> input = (Map<?, ?>) data.get("input");
        decoder = new RowDecoder((String) input.get("format"), Column.list(input.get("columns")));
        where = Expression.of(data.get("where"));
        columns = expressions(data.get("columns"));
        windows = data.get("windows") == null ? null
                : windows((Map<?, ?>) data.get("windows"), Long.parseLong(number(input.get("watermark_ms"))));
        having = Expression.of(data.get("having"));
        select = expressions(data.get("select"));
        encoder = new RowEncoder((String) data.get("format"), Column.list(data.get("output")));
    }

    /**
     * Returns the program of a text.
     *
     * @throws IllegalArgumentException if it is of another version
     */
    public static SqlProgram of(String text) {
        SqlProgram known = PROGRAMS.get(text);
        if (known == null) {
            known = new SqlProgram((Map<?, ?>) JsonParser.parse(text));
            PROGRAMS.put(text, known);
        }
        return known;
    }

    private static String number(Object value) {
        return value instanceof JsonParser.Number number ? number.text() : String.valueOf(value);
    }

    private static Expression[] expressions(Object data) {
        List<Expression> found = new ArrayList<>();
        for (Object each : (List<?>) data) {
            found.add(Expression.of(each));
        }
        return found.toArray(new Expression[0]);
    }

    private static Windows windows(Map<?, ?> data, long watermark) {
        List<String> keys = new ArrayList<>();
        for (Object each : (List<?>) data.get("keys")) {
            keys.add((String) each);
        }
        List<Merge> merges = new ArrayList<>();
        for (Object each : (List<?>) data.get("merges")) {
            Map<?, ?> merge = (Map<?, ?>) each;
            merges.add(new Merge((String) merge.get("kind"), (String) merge.get("type")));
        }
        return new Windows(Long.parseLong(number(data.get("size_ms"))), Long.parseLong(number(data.get("slide_ms"))),
                watermark, keys, merges);
    }

    /** Returns the windows; null for a query without an aggregation. */
    public Windows windows() {
        return windows;
    }

    /**
     * Returns the row of a message, for windows if there are any; null if the condition leaves it out.
     *
     * @throws UnparsableMessageException if it does not fit the contract of its topic
     */
    public Object[] row(String topic, byte[] content) {
        Object[] row = decoder.row(topic, content);
        return passes(where, row) ? all(columns, row) : null;
    }

    /** Returns the reason why a message does not fit the contract of its topic; null for one that does. */
    public String fault(String topic, byte[] content) {
        try {
            decoder.row(topic, content);
            return null;
        } catch (UnparsableMessageException e) {
            return e.getMessage();
        }
    }

    /** Returns the text of a result; null if the condition behind the windows leaves it out. */
    public String result(Object[] row) {
        if (windows == null) {
            return encoder.text(row);
        }
        for (int at = 0; at < row.length; at++) {
            // A sum of doubles may have left their range.
            row[at] = row[at] instanceof Double number ? Numbers.finite(number) : row[at];
        }
        return passes(having, row) ? encoder.text(all(select, row)) : null;
    }

    private static boolean passes(Expression condition, Object[] row) {
        return condition == null || Boolean.TRUE.equals(condition.of(row));
    }

    private static Object[] all(Expression[] expressions, Object[] row) {
        Object[] found = new Object[expressions.length];
        for (int at = 0; at < found.length; at++) {
            found[at] = expressions[at].of(row);
        }
        return found;
    }
}
