package io.speck.nexmark;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/** The lines of a window that have the highest number in a field, all of them if several have it. */
final class Highest implements AggregateFunction<String, Highest.Best, List<String>> {
    private static final long serialVersionUID = 1L;

    private final int field;

    Highest(int field) {
        this.field = field;
    }

    DataStream<String> in(DataStream<String> lines, WindowAssigner<Object, TimeWindow> windows) {
        return lines.windowAll(windows).aggregate(this).name("windowed aggregation: highest").uid("highest")
                .<String>flatMap((highest, out) -> highest.forEach(out::collect)).returns(Types.STRING)
                .name("flat map: rows");
    }

    /** The lines of the highest number so far; Flink keeps it, which is why its fields are as they are. */
    public static final class Best {
        public long number = Long.MIN_VALUE;
        public List<String> lines = new ArrayList<>();

        void add(long other, String line) {
            if (other > number) {
                number = other;
                lines.clear();
            }
            if (other == number) {
                lines.add(line);
            }
        }
    }

    @Override
    public Best createAccumulator() {
        return new Best();
    }

    @Override
    public Best add(String line, Best best) {
        best.add(Line.number(line, field), line);
        return best;
    }

    @Override
    public List<String> getResult(Best best) {
        return best.lines;
    }

    @Override
    public Best merge(Best one, Best other) {
        other.lines.forEach(line -> one.add(other.number, line));
        return one;
    }
}
