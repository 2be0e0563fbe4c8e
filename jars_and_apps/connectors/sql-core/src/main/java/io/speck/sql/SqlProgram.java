package io.speck.sql;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A query as {@code speck.sql.program} writes it: rows that fulfil a condition, columns of them, perhaps windows, and
 * behind those a condition and columns once more. A part of a query sends {@link Frame frames}, or takes them.
 */
public final class SqlProgram {
    private static final List<String> VERSIONS = List.of("1", "2", "3", "4", "5", "6", "7");
    private static final int CACHED = 64;
    private static final int JOINED = 4; // of a row for a join; see Join.tagged
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
    private final long watermark;
    /** Of a part that sends frames; null for another program. */
    private final Sends sends;
    /** True for a part of a query without windows and joins. */
    private final boolean ofRows;
    /** Of a part that takes frames; null for another program. */
    private final FrameReader frames;
    private final List<String> inputs = new ArrayList<>();
    /** Of a query with ranks, which {@code keep} follows; null for another program. */
    private final Ranks ranks;
    private final Expression keep;
    /** The number of places that a part with ranks sends of each slide; -1 of another program. */
    private final int places;
    /** The columns behind the windows. */
    private final List<Column> behind;
    /** Null for a query of one table. */
    private final Join join;

    /**
     * An aggregation in windows of event time. The rows before it are the time, the keys, and an argument of each
     * merge; those behind it are start and end of the window, the keys, and the totals. The windows of a {@code session}
     * are those of the rows of a key that are less than their size apart; their slide is the step of the progress.
     */
    public record Windows(long sizeMillis, long slideMillis, long watermarkMillis, List<String> keys,
            List<Merge> merges, boolean session) {}

    /** The index of the event time, the step of progress without a row, and the writer of frames. */
    private record Sends(int time, long stepMillis, FrameWriter writer) {}

    SqlProgram(Map<?, ?> data) {
        String version = number(data.get("version"));
        if (!VERSIONS.contains(version)) {
            throw new IllegalArgumentException("the query has version " + version + ", and this connector knows "
                    + VERSIONS.get(VERSIONS.size() - 1) + " (expected a connector of the server's version)");
        }
        Map<?, ?> input = (Map<?, ?>) data.get("input");
        List<Column> read = Column.list(input.get("columns"));
        decoder = new RowDecoder((String) input.get("format"), read);
        watermark = input.get("watermark_ms") == null ? 0 : Long.parseLong(number(input.get("watermark_ms")));
        where = Expression.of(data.get("where"));
        columns = expressions(data.get("columns"));
        windows = data.get("windows") == null ? null
                : windows((Map<?, ?>) data.get("windows"), watermark);
        having = Expression.of(data.get("having"));
        select = expressions(data.get("select"));
        List<Column> output = Column.list(data.get("output"));
        encoder = new RowEncoder((String) data.get("format"), output);
        join = data.get("join") instanceof Map<?, ?> found
                ? new Join(this, found, Arrays.asList(data.get("having"), data.get("select"))) : null;
        sends = data.get("sends") instanceof Map<?, ?> found ? sends(found, output) : null;
        ofRows = input.get("event_time") != null;
        frames = join == null && data.get("takes") instanceof Map<?, ?> found
                ? new FrameReader(this, read, output, found) : null;
        ranks = data.get("rank") instanceof Map<?, ?> found ? new Ranks(found) : null;
        keep = Expression.of(data.get("keep"));
        places = sends == null || ranks == null ? -1 : places((List<?>) data.get("keep"));
        behind = windows == null ? List.of() : behind(windows);
        if (data.get("takes") instanceof Map<?, ?> found) {
            ((List<?>) found.get("inputs")).forEach(each -> inputs.add((String) each));
        }
    }

    private static List<Column> behind(Windows windows) {
        List<Column> found = new ArrayList<>(List.of(FrameReader.WHOLE, FrameReader.WHOLE));
        windows.keys().forEach(each -> found.add(FrameReader.column(each)));
        windows.merges().forEach(each -> found.add(FrameReader.column(each.total())));
        return found;
    }

    private static Sends sends(Map<?, ?> data, List<Column> output) {
        int rows = data.get("rows") == null ? 1 : Integer.parseInt(number(data.get("rows")));
        int version = data.get("frame") == null ? Frame.ROWS_VERSION : Integer.parseInt(number(data.get("frame")));
        return new Sends(Integer.parseInt(number(data.get("time"))), Long.parseLong(number(data.get("step_ms"))),
                new FrameWriter(Frame.number((String) data.get("cut")), rows, version, output));
    }

    /** Returns the number in the condition of a part with ranks: {@code ["le", place, ["lit", type, number]]}. */
    private static int places(List<?> condition) {
        long number = Long.parseLong(number(((List<?>) condition.get(2)).get(2)));
        return (int) Math.max(0, Math.min(number, Integer.MAX_VALUE));
    }

    static int[] indexes(Object data) {
        return ((List<?>) data).stream().mapToInt(each -> Integer.parseInt(number(each))).toArray();
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

    static String number(Object value) {
        return value instanceof JsonParser.Number number ? number.text() : String.valueOf(value);
    }

    static Expression[] expressions(Object data) {
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
                watermark, keys, merges, Boolean.TRUE.equals(data.get("session")));
    }

    /** Returns the windows; null for a query without an aggregation. */
    public Windows windows() {
        return windows;
    }

    /** True for a part of a query, whose windows are over totals in the place of values. */
    public boolean isPart() {
        return sends != null || frames != null || join != null;
    }

    /** True for a part of a query that sends frames. */
    public boolean sendsFrames() {
        return sends != null;
    }

    /** Returns the join; null for a query of one table. */
    public Join join() {
        return join;
    }

    /** Returns the number of columns before the state: those of a row for the windows, or for the join. */
    public int width() {
        return join == null ? windows.keys().size() + windows.merges().size() + 1 : JOINED;
    }

    /** Returns the names of the inputs of the rest of a query; none for another program. */
    public List<String> inputs() {
        return inputs;
    }

    /**
     * Returns a message in the form that the methods below take without a topic, so that it is decoded once only. That of a
     * part that sends frames ends with the length of the message, which decides where they end.
     *
     * @throws UnparsableMessageException if it does not fit the contract of its topic, or is no frame of the query
     */
    public byte[] decoded(String topic, byte[] content) {
        if (readsFrames()) {
            return RowBytes.of(frame(topic, content).values());
        }
        Object[] row = row(topic, content);
        Object[] all = Arrays.copyOf(row, row.length + (sends == null ? 0 : 1));
        if (sends != null) {
            all[row.length] = (long) content.length;
        }
        return RowBytes.of(all);
    }

    Object[] read(String topic, byte[] content) {
        return topic == null ? RowBytes.row(content) : row(topic, content);
    }

    private Object[] row(String topic, byte[] content) {
        Object[] row = decoder.row(topic, content);
        if (windows != null || sends != null) {
            EventTimes.check(eventTime(row));
        }
        return row;
    }

    private long eventTime(Object[] row) {
        return (Long) (sends == null ? columns[0].of(row) : row[sends.time]);
    }

    /** True for the rest of a query, over the frames of its input jobs. */
    boolean readsFrames() {
        return join != null || frames != null;
    }

    /** Returns the sender of the messages of a program without windows. */
    public Sender sender() {
        return new Sender(this, sends == null ? null : sends.writer);
    }

    /** True for a part of a query that sends the progress without a row: something waits for it. */
    boolean sendsProgress() {
        return !ofRows;
    }

    /**
     * Returns the results of a frame, of a query without windows: one for each of its rows, in their order.
     *
     * @param topic null if the content is {@link #decoded}
     * @throws UnparsableMessageException if it is no frame of the query
     */
    List<String> results(String topic, byte[] content) {
        return frame(topic, content).rows().stream().map(each -> encoder.text(results(each))).toList();
    }

    /** Returns the message for a row that is read; null if the condition leaves it out. */
    String message(Object[] row) {
        Object[] values = values(row);
        return values == null ? null : encoder.text(values);
    }

    /** Returns the columns of a row that is read; null if the condition leaves it out. */
    Object[] values(Object[] row) {
        return passes(where, row) ? all(columns, row) : null;
    }

    /** Rows that the condition leaves out have a progress as well: time passes for the others. */
    long progress(Object[] row) {
        return eventTime(row) - watermark;
    }

    /** Returns what a query knows of the progress of its inputs; one that reads no frames has one input, without a name. */
    public Watermarks watermarks() {
        return new Watermarks(inputs.isEmpty() ? List.of("") : inputs, step());
    }

    private long step() {
        Windows steps = join == null ? windows : join.windows();
        return steps != null ? steps.slideMillis() : sends == null ? 1 : sends.stepMillis;
    }

    /**
     * Returns the row of a message for the windows, or the join, with the progress. The row of a part of a query has
     * totals in the place of values.
     *
     * @param topic null if the content is {@link #decoded}
     * @throws UnparsableMessageException if it does not fit the contract of its topic, or is no frame of the query
     */
    public Frame frame(String topic, byte[] content) {
        if (readsFrames() && topic == null) {
            return Frame.of(RowBytes.row(content));
        }
        if (join != null) {
            return join.frame(topic, content);
        }
        if (frames != null) {
            return frames.frame(topic, content);
        }
        Object[] row = read(topic, content);
        Object[] found = isPart() ? totals(row) : values(row);
        return new Frame("", progress(row), found == null ? List.of() : List.<Object[]>of(found));
    }

    /** Returns the rows of a message for the windows, or for a join: {@link Join#tagged}. */
    public List<Object[]> rows(Frame frame) {
        return join == null ? frame.rows() : frame.rows().stream().map(each -> join.tagged(frame.side(), each)).toList();
    }

    /** Returns the row before the windows with the totals of one that is read; null if the condition leaves it out. */
    Object[] totals(Object[] row) {
        return passes(where, row) ? totalsBehindCondition(row) : null;
    }

    Object[] totalsBehindCondition(Object[] row) {
        return totalsOf(all(columns, row));
    }

    /** Puts the totals of a row before the windows in the place of its values; a result stays as it is. */
    Object[] totalsOf(Object[] row) {
        if (windows == null) {
            return row;
        }
        int first = row.length - windows.merges().size();
        for (int at = first; at < row.length; at++) {
            row[at] = windows.merges().get(at - first).of(row[at]);
        }
        return row;
    }

    /** Returns a row before the windows with those of its values that are constants. */
    Object[] constants(int[] computed) {
        Object[] row = new Object[columns.length];
        for (int at = 0; at < row.length; at++) {
            int place = at;
            boolean constant = Arrays.stream(computed).noneMatch(each -> each == place);
            row[at] = constant ? columns[at].of(row) : null;
        }
        return row;
    }

    /** Returns the frames of a part that sends them, for the rows behind the windows of a time. */
    List<String> frames(List<Object[]> rows, long time) {
        List<Object[]> passing = rows.stream().filter(each -> passes(having, each)).toList();
        List<Object[]> kept = ranks == null ? passing
                : ranks.ranked(passing).stream().filter(each -> passes(keep, each)).toList();
        return sends.writer.frames(kept.stream().map(each -> all(select, each)).toList(), time);
    }

    /** Returns the message of a progress without a row. */
    public static String progressText(long progress) {
        return Frame.text(Frame.NO_CUT, progress);
    }

    /** Returns the slides of an input job with the cut {@code partials}, without a row. */
    public Panes panes() {
        return new Panes(this);
    }

    /** Returns the columns before the windows, with a total for each merge. */
    List<Column> totals() {
        List<Column> found = new ArrayList<>(behind);
        found.remove(1);
        return found;
    }

    /** Returns the rows that a part with ranks keeps of each slide; null for another program. */
    BestRows bestRows() {
        return places < 0 ? null : new BestRows(windows, ranks, having, places);
    }

    /** True for a query with ranks, whose results follow from all rows of a window: {@link #ranked}. */
    public boolean ranks() {
        return ranks != null;
    }

    /** Returns the message for a row behind the windows; null if the condition there leaves it out. */
    public String result(Object[] row) {
        return passes(having, results(row)) ? written(row) : null;
    }

    /** Returns the messages for the rows of a window. */
    public List<String> ranked(List<Object[]> rows) {
        List<Object[]> results = rows.stream().filter(each -> passes(having, results(each))).toList();
        List<String> found = new ArrayList<>();
        for (Object[] row : ranks.ranked(results)) {
            if (passes(keep, row)) {
                found.add(written(row));
            }
        }
        return found;
    }

    private String written(Object[] row) {
        return encoder.text(all(select, row));
    }

    /** Returns a row behind the windows as a text, to be kept until its window has all rows. */
    public static String kept(Object[] row) {
        return Frame.array(row);
    }

    /** Returns the row behind the windows that {@link #kept} has made a text of. */
    public Object[] row(String kept) {
        return row(kept, behind);
    }

    static Object[] row(String kept, List<Column> columns) {
        List<?> values = (List<?>) JsonParser.parse(kept);
        Object[] row = new Object[columns.size()];
        for (int at = 0; at < row.length; at++) {
            row[at] = FrameReader.value(columns.get(at), values.get(at));
        }
        return row;
    }

    /** Changes the sums of doubles that have left their range to null. */
    private Object[] results(Object[] row) {
        for (int at = 0; at < row.length; at++) {
            row[at] = row[at] instanceof Double number ? Numbers.finite(number) : row[at];
        }
        return row;
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
