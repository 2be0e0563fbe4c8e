package io.speck.flink.jobs;

import io.speck.flink.jobs.Statistics.WindowUpdate;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.TimeDomain;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Counts readings by window, and gives out the windows that changed every fifth of a second.
 *
 * <p>The clock decides which states of a window are given out, but not what an update says or how it is numbered: the
 * number of the last reading in the window says all. So an update that is sent again after a failure bears the number
 * that it had, and one that readers drop, since they have seen a higher number, is of a window whose state at that
 * number they were sent, or that changes later once more: updates go out in the order of their numbers. The last state
 * of each window arrives.
 */
final class WindowCounter extends KeyedProcessFunction<Integer, String, WindowUpdate> {
    private static final long serialVersionUID = 1L;
    private static final long GATHER_MILLIS = 200;

    private final Statistics statistics;
    private transient MapState<Long, WindowTotals> windows;
    private transient ValueState<Progress> progress;
    /** Not part of the state: a timer of before a restart may be far off where another clock rules. */
    private transient boolean waiting;

    WindowCounter(Statistics statistics) {
        this.statistics = statistics;
    }

    @Override
    public void open(OpenContext context) {
        windows = getRuntimeContext().getMapState(
                new MapStateDescriptor<>("windows", Types.LONG, Types.POJO(WindowTotals.class)));
        progress = getRuntimeContext().getState(new ValueStateDescriptor<>("progress", Types.POJO(Progress.class)));
    }

    @Override
    public void processElement(String line, Context context, Collector<WindowUpdate> out) throws Exception {
        Reading reading = Reading.parse(line);
        if (reading == null) {
            return;
        }
        statistics.checkTime(reading.time(), context.timerService().currentProcessingTime());
        Progress now = progress.value() == null ? begin(context) : progress.value();
        if (now.late(statistics.start(reading.time()) + statistics.window())) {
            return;
        }
        count(reading, now);
        if (now.advance(reading.time() - statistics.lateness(), statistics.window())) {
            forget(now, out);
        }
        if (!waiting && now.given < now.readings) {
            waiting = true;
            context.timerService().registerProcessingTimeTimer(
                    context.timerService().currentProcessingTime() + GATHER_MILLIS);
        }
        progress.update(now);
    }

    /** Also gives out what is left when the stream ends: its watermark is then the last there is. */
    private static Progress begin(Context context) {
        context.timerService().registerEventTimeTimer(Long.MAX_VALUE);
        return new Progress();
    }

    private void count(Reading reading, Progress now) throws Exception {
        long start = statistics.start(reading.time());
        WindowTotals known = windows.get(start);
        WindowTotals totals = known == null ? new WindowTotals() : known;
        totals.add(reading, statistics.slowest());
        totals.version = ++now.readings;
        windows.put(start, totals);
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<WindowUpdate> out) throws Exception {
        Progress now = progress.value();
        waiting &= context.timeDomain() != TimeDomain.PROCESSING_TIME;
        give(now, out);
        progress.update(now);
    }

    private void give(Progress now, Collector<WindowUpdate> out) throws Exception {
        List<WindowUpdate> updates = new ArrayList<>();
        for (Map.Entry<Long, WindowTotals> window : windows.entries()) {
            WindowTotals totals = window.getValue();
            if (totals.version > now.given) {
                updates.add(new WindowUpdate(totals.version, statistics.text(window.getKey(), totals)));
            }
        }
        updates.sort(Comparator.comparingLong(WindowUpdate::number));
        updates.forEach(out::collect);
        now.given = now.readings;
    }

    /** Windows that take no more readings are given out for the last time, along with what else has changed. */
    private void forget(Progress now, Collector<WindowUpdate> out) throws Exception {
        List<Long> past = new ArrayList<>();
        for (Long start : windows.keys()) {
            if (now.late(start + statistics.window())) {
                past.add(start);
            }
        }
        if (!past.isEmpty()) {
            give(now, out);
        }
        for (Long start : past) {
            windows.remove(start);
        }
    }

    /** The progress of the counting, kept by Flink, which is why its fields are public. */
    public static final class Progress {
        /** The number of messages counted, and the number of the last result. */
        public long readings;
        public long given;
        /** Windows that end here, or before, take no more readings. */
        public long watermark = Long.MIN_VALUE;

        boolean late(long end) {
            return end <= watermark;
        }

        /** True when windows may have passed away. */
        boolean advance(long reached, long window) {
            long before = watermark;
            watermark = Math.max(before, reached);
            return before != Long.MIN_VALUE && Math.floorDiv(before, window) != Math.floorDiv(watermark, window);
        }
    }
}
