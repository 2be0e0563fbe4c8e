package io.speck.sql.flink;

import io.speck.sql.Join;
import io.speck.sql.SqlProgram;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** The results of the rows of two tables that have one key, in a window. */
final class JoinWindow extends ProcessWindowFunction<Row, String, String, TimeWindow> {
    private static final long serialVersionUID = 1L;

    private final String text;

    JoinWindow(String program) {
        text = program;
    }

    @Override
    public void process(String key, Context context, Iterable<Row> rows, Collector<String> out) {
        Join join = SqlProgram.of(text).join();
        List<String> left = new ArrayList<>();
        List<String> right = new ArrayList<>();
        for (Row row : rows) {
            (RowTypes.side(row) == 0 ? left : right).add(RowTypes.joined(row));
        }
        join.results(context.window().getStart(), context.window().getEnd(), left, right).forEach(out::collect);
    }
}
