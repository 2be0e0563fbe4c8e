package io.speck.sql.flink;

import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** The rows behind windows: start and end of a window, the keys, the totals. */
final class WindowRows extends ProcessWindowFunction<Row, Row, Row, TimeWindow> {
    private static final long serialVersionUID = 1L;

    private final boolean keyed;

    /** @param keyed false for windows without keys, whose rows all have one that is no part of them */
    WindowRows(boolean keyed) {
        this.keyed = keyed;
    }

    @Override
    public void process(Row key, Context context, Iterable<Row> totals, Collector<Row> out) {
        Row total = totals.iterator().next();
        Row bounds = Row.of(context.window().getStart(), context.window().getEnd());
        out.collect(keyed ? Row.join(bounds, key, total) : Row.join(bounds, total));
    }
}
