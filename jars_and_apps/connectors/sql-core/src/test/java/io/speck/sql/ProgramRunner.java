package io.speck.sql;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * Runs programs for the comparison with {@code speck.sql.evaluate}, which starts it from Python. A line of input is
 * {@code {"program": TEXT, "messages": [[TOPIC, BASE64], ...]}}; the line of output for it is {@code {"messages": [TEXT,
 * ...], "unparsable": [[INDEX, REASON], ...], "slides": [TEXT, ...], "progress": MILLIS, "read": COUNT}}. Every other
 * message is decoded beforehand. All windows stay open to the end.
 *
 * <p>An order for an input job may have the {@code slides} that the one before it has left, and {@code open: true}: then
 * its own are left open. It may have the {@code progress} of the one before, and {@code waits: true}: then its rows that
 * wait are left, and {@code read} is the number of messages before the first of them.
 */
public final class ProgramRunner {
    private final Map<?, ?> order;
    private final SqlProgram program;
    private final Sender sender;
    /** The slides of an input job that merges rows; null for another program. */
    private final Panes panes;
    /** The rows before windows, and those before a join by their table. */
    private final List<Object[]> rows = new ArrayList<>();
    private final List<List<Object[]>> joined = List.of(new ArrayList<>(), new ArrayList<>());
    private final List<String> found = new ArrayList<>();
    private final List<String> reasons = new ArrayList<>();
    /** The number of messages so far, and of those before the first one whose rows wait; -1 if none do. */
    private int messages;
    private int waiting = -1;

    private ProgramRunner(Map<?, ?> order) {
        this.order = order;
        this.program = SqlProgram.of((String) order.get("program"));
        this.sender = program.sender();
        this.panes = program.sendsFrames() && program.windows() != null ? program.panes() : null;
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(new ProgramRunner((Map<?, ?>) JsonParser.parse(line)).run());
        }
    }

    private String run() {
        restore();
        ((List<?>) order.get("messages")).forEach(each -> read((List<?>) each));
        boolean open = isSet("open");
        if (!isSet("waits")) {
            add(sender.close(), found);
        }
        if (panes != null && !open) {
            panes.ended(Long.MAX_VALUE).forEach(each -> add(each, found));
        }
        List<String> slides = new ArrayList<>();
        if (panes != null && open) {
            panes.kept().forEach(each -> add(each, slides));
        }
        addBehind();
        return "{\"messages\":[" + String.join(",", found) + "],\"unparsable\":[" + String.join(",", reasons)
                + "],\"slides\":[" + String.join(",", slides) + "],\"progress\":" + sender.progress()
                + ",\"read\":" + (waiting < 0 ? messages : waiting) + "}";
    }

    private boolean isSet(String name) {
        return Boolean.TRUE.equals(order.get(name));
    }

    /** Begins with what the input job before this one has left. */
    private void restore() {
        if (order.get("progress") instanceof JsonParser.Number kept) {
            sender.restore(Long.parseLong(kept.text()));
        }
        List<String> slides = new ArrayList<>();
        if (order.get("slides") instanceof List<?> left) {
            left.forEach(each -> slides.add((String) each));
        }
        if (panes != null) {
            slides.forEach(panes::restore);
        } else {
            Panes.left(slides).forEach(each -> add(each, found));
        }
    }

    private void read(List<?> message) {
        String topic = (String) message.get(0);
        byte[] content = Base64.getDecoder().decode((String) message.get(1));
        try {
            if (messages % 2 > 0) { // both forms have the same rows
                take(null, program.decoded(topic, content));
            } else {
                take(topic, content);
            }
        } catch (UnparsableMessageException e) {
            reasons.add("[" + messages + "," + text(e.getMessage()) + "]");
        }
        messages++;
    }

    private void take(String topic, byte[] content) {
        if (panes != null) {
            panes.take(program.frame(topic, content)).forEach(frame -> add(frame, found));
        } else if (program.join() != null) {
            Frame frame = program.frame(topic, content);
            joined.get(frame.side()).addAll(program.rows(frame));
        } else if (program.windows() == null) {
            sender.texts(topic, content, true).forEach(each -> add(each, found));
            waiting = !sender.waits() ? -1 : waiting < 0 ? messages : waiting;
        } else {
            rows.addAll(program.frame(topic, content).rows());
        }
    }

    /** Adds the results of the rows that windows, or a join, have collected. */
    private void addBehind() {
        List<Object[]> behind = program.windows() == null || panes != null ? List.of() : windowed(program, rows);
        if (program.join() != null) {
            addJoined(program.join(), joined, found);
        } else if (program.ranks()) {
            addRanked(program, behind, found);
        } else {
            addResults(program, behind, found);
        }
    }

    /** Adds the results of rows behind windows. */
    private static void addResults(SqlProgram program, List<Object[]> behind, List<String> found) {
        Map<Object, List<String>> results = new TreeMap<>();
        for (Object[] row : behind) {
            Object start = row[0];
            Stream.ofNullable(program.result(row)).forEach(
                    each -> results.computeIfAbsent(start, any -> new ArrayList<>()).add(each));
        }
        results.values().forEach(each -> {
            Collections.sort(each);
            each.forEach(text -> add(text, found));
        });
    }

    /** Adds the results of a join, of the rows of both tables. */
    private static void addJoined(Join join, List<List<Object[]>> rows, List<String> found) {
        Map<String, List<List<String>>> windows = new TreeMap<>();
        for (int side = 0; side < rows.size(); side++) {
            for (Object[] row : rows.get(side)) {
                for (long start : join.byTime() ? List.of(0L) : starts(join.windows(), (Long) row[0])) {
                    windows.computeIfAbsent(start + " " + row[2],
                            any -> List.of(new ArrayList<>(), new ArrayList<>())).get(side).add((String) row[3]);
                }
            }
        }
        Collection<String> results = join.distinct() ? new TreeSet<>() : new ArrayList<>();
        windows.forEach((window, texts) -> {
            if (join.byTime()) {
                addPairs(join, texts, results);
            } else {
                long start = Long.parseLong(window.substring(0, window.indexOf(' ')));
                results.addAll(join.results(start, start + join.windows().sizeMillis(), texts.get(0), texts.get(1)));
            }
        });
        results.forEach(each -> add(each, found));
    }

    private static void addPairs(Join join, List<List<String>> texts, Collection<String> results) {
        for (String left : texts.get(0)) {
            for (String right : texts.get(1)) {
                long one = time(left);
                long other = time(right);
                long later = Math.max(one, other);
                String result = join.joins(one, other) ? join.result(later, later, left, right) : null;
                if (result != null) {
                    results.add(result);
                }
            }
        }
    }

    private static long time(String row) {
        return Long.parseLong(SqlProgram.number(((List<?>) JsonParser.parse(row)).get(0)));
    }

    private static List<Long> starts(SqlProgram.Windows windows, long time) {
        List<Long> found = new ArrayList<>();
        long last = Math.floorDiv(time, windows.slideMillis()) * windows.slideMillis();
        for (long start = last; start > last - windows.sizeMillis(); start -= windows.slideMillis()) {
            found.add(start);
        }
        return found;
    }

    /** Returns the sessions of rows that have one key. */
    private static List<List<Object[]>> sessions(SqlProgram.Windows windows, List<Object[]> rows) {
        List<List<Object[]>> found = new ArrayList<>();
        long last = Long.MIN_VALUE;
        for (Object[] row : rows.stream().sorted(Comparator.comparingLong(each -> (Long) each[0])).toList()) {
            if (found.isEmpty() || (Long) row[0] >= last + windows.sizeMillis()) {
                found.add(new ArrayList<>());
            }
            found.get(found.size() - 1).add(row);
            last = (Long) row[0];
        }
        return found;
    }

    /** Adds the results of a query with ranks, of rows that are in the order of their windows. */
    private static void addRanked(SqlProgram program, List<Object[]> behind, List<String> found) {
        Map<Object, List<Object[]>> windows = new TreeMap<>();
        for (Object[] row : behind) {
            Object[] kept = program.row(SqlProgram.kept(row));
            windows.computeIfAbsent(kept[0], any -> new ArrayList<>()).add(kept);
        }
        windows.values().forEach(each -> {
            List<String> results = new ArrayList<>(program.ranked(each));
            Collections.sort(results);
            results.forEach(text -> add(text, found));
        });
    }

    private static void add(String result, List<String> found) {
        if (result != null) {
            found.add(text(result));
        }
    }

    private static List<Object[]> windowed(SqlProgram program, List<Object[]> rows) {
        SqlProgram.Windows windows = program.windows();
        Map<Object[], Object[]> groups = new TreeMap<>(ProgramRunner::compare);
        int keys = windows.keys().size();
        for (Object[] row : rows) {
            for (long[] bounds : bounds(windows, rows, row)) {
                Object[] group = new Object[keys + 2];
                group[0] = bounds[0];
                group[1] = bounds[1];
                System.arraycopy(row, 1, group, 2, keys);
                Object[] totals = groups.computeIfAbsent(group,
                        any -> windows.merges().stream().map(Merge::begin).toArray());
                for (int at = 0; at < totals.length; at++) {
                    Merge merge = windows.merges().get(at);
                    Object value = row[keys + 1 + at];
                    totals[at] = program.isPart() ? merge.merged(totals[at], value) : merge.with(totals[at], value);
                }
            }
        }
        List<Object[]> found = new ArrayList<>();
        groups.forEach((group, totals) -> {
            Object[] row = Arrays.copyOf(group, group.length + totals.length);
            System.arraycopy(totals, 0, row, group.length, totals.length);
            found.add(row);
        });
        return found;
    }

    /** Returns start and end of the windows of a row. */
    private static List<long[]> bounds(SqlProgram.Windows windows, List<Object[]> rows, Object[] row) {
        if (!windows.session()) {
            return starts(windows, (Long) row[0]).stream()
                    .map(start -> new long[] {start, start + windows.sizeMillis()}).toList();
        }
        int keys = windows.keys().size();
        List<Object[]> equal = rows.stream().filter(each -> Arrays.equals(each, 1, keys + 1, row, 1, keys + 1)).toList();
        List<Object[]> session = sessions(windows, equal).stream().filter(each -> each.contains(row)).findFirst()
                .orElseThrow();
        long last = (Long) session.get(session.size() - 1)[0];
        return List.of(new long[] {(Long) session.get(0)[0], last + windows.sizeMillis()});
    }

    /** Compares keys; null comes first. */
    private static int compare(Object[] one, Object[] other) {
        for (int at = 0; at < one.length; at++) {
            boolean none = one[at] == null || other[at] == null;
            int found = none ? Boolean.compare(one[at] != null, other[at] != null)
                    : Expression.compare(one[at], other[at]);
            if (found != 0) {
                return found;
            }
        }
        return 0;
    }

    private static String text(String text) {
        return new RowEncoder("json", List.of(new Column("x", "string", true, "", 0)))
                .text(new Object[] {text}).replaceFirst("^\\{\"x\":", "").replaceFirst("}$", "");
    }
}
