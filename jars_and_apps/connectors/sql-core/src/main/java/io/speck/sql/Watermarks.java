package io.speck.sql;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The watermark of a part of a query: the least progress of all inputs, once each has sent its own, in steps of the slide
 * of the windows, which end at no other times. A later input, which the query no longer names, holds nothing back.
 */
public final class Watermarks {
    /** Before all inputs have sent their progress. */
    public static final long NONE = Long.MIN_VALUE;

    private final List<String> inputs;
    private final long step;
    private final Map<String, Long> reached = new TreeMap<>();
    private long mark = NONE;

    Watermarks(List<String> inputs, long step) {
        this.inputs = inputs;
        this.step = step;
    }

    /** Takes a progress, and returns true if the watermark has moved. */
    public boolean advance(String input, long progress) {
        if (inputs.contains(input)) {
            reached.merge(input, Math.max(progress, 0), Math::max);
        }
        long before = mark;
        if (reached.size() == inputs.size()) {
            long least = reached.values().stream().mapToLong(Long::longValue).min().orElse(0);
            mark = Math.max(mark, least / step * step);
        }
        return mark > before;
    }

    /** Continues at a watermark that was kept: it holds when an edit has added an input, whose progress is not known yet. */
    public void resume(long kept) {
        mark = Math.max(mark, kept);
    }

    /** Returns the watermark in milliseconds: windows that end at it, or before, have all their rows. */
    public long mark() {
        return mark;
    }

    /** Returns the progress of each input, to be kept. */
    public Map<String, Long> reached() {
        return reached;
    }
}
