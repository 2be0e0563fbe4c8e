package io.speck.sql;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * The totals of an input job by slide and key, each slide until it is over. What is kept of them ({@link #kept}) does not
 * depend on the program, so that one with another cut sends it: {@link #left}.
 */
public final class Panes {
    private final SqlProgram program;
    private final SqlProgram.Windows windows;
    private final Watermarks watermarks;
    /** Null for a program that keeps all rows. */
    private final BestRows best;
    private final int keys;
    /** By the start of a slide, then by key: the rows behind the windows. */
    private final NavigableMap<Long, Map<List<Object>, Total>> open = new TreeMap<>();

    /**
     * The rows of a slide and key.
     *
     * @param row start and end of the slide, the key and the totals
     */
    private static final class Total {
        private final Object[] row;
        private long first = Long.MAX_VALUE;
        private long last = Long.MIN_VALUE;

        Total(Object[] row) {
            this.row = row;
        }
    }

    Panes(SqlProgram program) {
        this.program = program;
        windows = program.windows();
        watermarks = program.watermarks();
        best = program.bestRows();
        keys = windows.keys().size();
    }

    /** Takes a message, and returns the frames of the slides that it ends, in an order that their rows alone decide. */
    public List<String> take(Frame frame) {
        for (Object[] row : frame.rows()) {
            if (start(row) + windows.slideMillis() > watermarks.mark() && (best == null || best.keeps(row))) {
                add(row);
            }
        }
        if (!watermarks.advance(frame.input(), frame.progress())) {
            return List.of();
        }
        List<String> found = ended(watermarks.mark() - windows.slideMillis());
        if (best != null) {
            best.forget(watermarks.mark());
        }
        found.add(SqlProgram.progressText(watermarks.mark()));
        return found;
    }

    private long start(Object[] row) {
        return Math.floorDiv((Long) row[0], windows.slideMillis()) * windows.slideMillis();
    }

    /** Merges a row before the windows, with totals, with those of its slide and key. */
    private void add(Object[] row) {
        long start = start(row);
        Total total = open.computeIfAbsent(start, any -> new HashMap<>()).computeIfAbsent(
                Arrays.asList(Arrays.copyOfRange(row, 1, keys + 1)), any -> new Total(behind(start, row)));
        for (int at = 0; at < windows.merges().size(); at++) {
            int place = keys + 2 + at;
            total.row[place] = windows.merges().get(at).merged(total.row[place], row[keys + 1 + at]);
        }
        total.first = Math.min(total.first, (Long) row[0]);
        total.last = Math.max(total.last, (Long) row[0]);
    }

    /** Returns the row behind the windows before the first one of its slide and key. */
    private Object[] behind(long start, Object[] row) {
        Object[] found = new Object[row.length + 1];
        found[0] = start;
        found[1] = start + windows.slideMillis();
        System.arraycopy(row, 1, found, 2, keys);
        for (int at = 0; at < windows.merges().size(); at++) {
            found[keys + 2 + at] = windows.merges().get(at).begin();
        }
        return found;
    }

    /**
     * Returns the output rows of a slide and key. In a session, a row has one time instead of the end of the slide: one row
     * has the first time and the totals; if there are several times, another has the last time and empty totals, so that the
     * session keeps its bounds.
     */
    private List<Object[]> rows(Total total) {
        if (!windows.session()) {
            return List.<Object[]>of(total.row);
        }
        Object[] first = total.row.clone();
        first[1] = total.first;
        if (total.first == total.last) {
            return List.<Object[]>of(first);
        }
        Object[] last = behind((Long) first[0], Arrays.copyOfRange(first, 1, first.length));
        last[1] = total.last;
        return List.of(first, last);
    }

    private List<Object[]> rows(Map<List<Object>, Total> slide) {
        return slide.values().stream().flatMap(each -> rows(each).stream()).toList();
    }

    /** Takes the slides up to a start, and returns their frames. */
    List<String> ended(long last) {
        NavigableMap<Long, Map<List<Object>, Total>> ended = open.headMap(last, true);
        List<String> found = new ArrayList<>();
        for (Map.Entry<Long, Map<List<Object>, Total>> slide : ended.entrySet()) {
            found.addAll(program.frames(rows(slide.getValue()), slide.getKey()));
        }
        ended.clear();
        return found;
    }

    /** Returns the rows of the open slides, as texts to be kept: start, or of sessions the time, keys and totals of each. */
    public List<String> kept() {
        List<String> found = new ArrayList<>();
        open.values().forEach(slide -> rows(slide).forEach(row -> {
            Object[] without = new Object[row.length - 1];
            without[0] = row[windows.session() ? 1 : 0];
            System.arraycopy(row, 2, without, 1, without.length - 1);
            found.add(Frame.array(without));
        }));
        return found;
    }

    /** Takes a row that was {@link #kept}. */
    public void restore(String kept) {
        add(SqlProgram.row(kept, program.totals()));
    }

    /** Returns the progress of the messages so far, to be kept; {@link Watermarks#NONE} before the first one. */
    public long progress() {
        return watermarks.reached().values().stream().mapToLong(Long::longValue).min().orElse(Watermarks.NONE);
    }

    /** Takes a progress that was kept. */
    public void restore(long progress) {
        if (progress != Watermarks.NONE) {
            watermarks.advance("", progress);
        }
    }

    /**
     * Returns the frames of rows that were {@link #kept}, for the rest of the query. They promise no progress: more rows of
     * their slides may follow.
     */
    public static List<String> left(Collection<String> kept) {
        String head = Frame.text(Frame.PARTIALS, 0);
        String begin = head.substring(0, head.length() - 1) + ",";
        List<String> frames = kept.stream().map(row -> begin + row.substring(1)).sorted().toList();
        return Frame.joined(frames, Frame.MOST_ROWS);
    }
}
