package io.speck.sql;

import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Leaves out rows that cannot be among the best ones of their slide, before the windows keep them: those behind as many
 * keys as there are places. What was seen is in memory alone: after a restart fewer rows are left out, and the results
 * are the same.
 */
final class BestRows {
    private final SqlProgram.Windows windows;
    private final Ranks ranks;
    private final Expression having;
    private final int places;
    private final Comparator<Object[]> distinct;
    /** By the start of a slide, then by the partition of the rank: the best keys so far. */
    private final NavigableMap<Long, Map<List<Object>, TreeSet<Object[]>>> slides = new TreeMap<>();

    BestRows(SqlProgram.Windows windows, Ranks ranks, Expression having, int places) {
        this.windows = windows;
        this.ranks = ranks;
        this.having = having;
        this.places = places;
        distinct = ranks.order().thenComparing(Frame::array);
    }

    /** Returns false for a row before the windows that cannot be among the best ones. */
    boolean keeps(Object[] row) {
        long start = Math.floorDiv((Long) row[0], windows.slideMillis()) * windows.slideMillis();
        Object[] behind = new Object[row.length + 1];
        behind[0] = start;
        behind[1] = start + windows.slideMillis();
        System.arraycopy(row, 1, behind, 2, windows.keys().size()); // nothing here depends on totals
        if (places < 1 || having != null && !Boolean.TRUE.equals(having.of(behind))) {
            return false;
        }
        TreeSet<Object[]> best = slides.computeIfAbsent(start, any -> new HashMap<>())
                .computeIfAbsent(ranks.partition(behind), any -> new TreeSet<>(distinct));
        if (best.size() == places && ranks.order().compare(behind, best.last()) > 0) {
            return false;
        }
        best.add(behind);
        if (best.size() > places) {
            best.pollLast();
        }
        return true;
    }

    /** Drops what is known of the slides that end at a watermark or before. */
    void forget(long mark) {
        slides.headMap(mark - windows.slideMillis(), true).clear();
    }
}
