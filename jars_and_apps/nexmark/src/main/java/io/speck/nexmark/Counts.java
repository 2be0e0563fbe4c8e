package io.speck.nexmark;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.flink.util.function.SerializableFunction;

/**
 * Sums by key and window: rows {@code R,last time of the window,key,sum}, with the window's start and end behind them if
 * {@code bounds}.
 *
 * @param key of a line
 * @param weight of a line: 1 to count, or the number of a field to add up counts
 */
record Counts(KeySelector<String, Long> key, SerializableFunction<String, Long> weight, boolean bounds) {
    static Counts of(int keyField, SerializableFunction<String, Long> weight) {
        return new Counts(line -> Line.number(line, keyField), weight, false);
    }

    Counts withBounds() {
        return new Counts(key, weight, true);
    }

    /** Each line counts once. */
    static SerializableFunction<String, Long> one() {
        return line -> 1L;
    }

    /** Each line counts as often as the number in this field says. */
    static SerializableFunction<String, Long> field(int field) {
        return line -> Line.number(line, field);
    }

    DataStream<String> in(DataStream<String> lines, WindowAssigner<Object, TimeWindow> windows, int parallelism) {
        return in(lines, windows, null, parallelism);
    }

    /** @param trigger in place of the windows' own; null for that one */
    DataStream<String> in(DataStream<String> lines, WindowAssigner<Object, TimeWindow> windows,
            Trigger<Object, TimeWindow> trigger, int parallelism) {
        WindowedStream<String, Long, TimeWindow> windowed = lines.keyBy(key, Types.LONG).window(windows);
        if (trigger != null) {
            windowed.trigger(trigger);
        }
        return windowed.aggregate(new Sum(weight), new Row(bounds), Types.LONG, Types.LONG, Types.STRING)
                .name("counts").uid("counts").setParallelism(parallelism);
    }

    private static final class Sum implements AggregateFunction<String, Long, Long> {
        private static final long serialVersionUID = 1L;

        private final SerializableFunction<String, Long> weight;

        Sum(SerializableFunction<String, Long> weight) {
            this.weight = weight;
        }

        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(String line, Long sum) {
            return sum + weight.apply(line);
        }

        @Override
        public Long getResult(Long sum) {
            return sum;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    private static final class Row extends ProcessWindowFunction<Long, String, Long, TimeWindow> {
        private static final long serialVersionUID = 1L;

        private final boolean bounds;

        Row(boolean bounds) {
            this.bounds = bounds;
        }

        @Override
        public void process(Long key, Context context, Iterable<Long> sums, Collector<String> out) {
            TimeWindow window = context.window();
            long sum = sums.iterator().next();
            out.collect(bounds ? Line.row(window.maxTimestamp(), key, sum, window.getStart(), window.getEnd())
                    : Line.row(window.maxTimestamp(), key, sum));
        }
    }
}
