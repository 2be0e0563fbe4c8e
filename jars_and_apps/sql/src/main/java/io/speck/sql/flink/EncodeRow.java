package io.speck.sql.flink;

import io.speck.sql.SqlProgram;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** The results of rows behind the windows of a query; of one with ranks the rows, as texts. */
final class EncodeRow implements FlatMapFunction<Row, String> {
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram program;

    EncodeRow(String program) {
        text = program;
    }

    @Override
    public void flatMap(Row row, Collector<String> out) {
        program = program == null ? SqlProgram.of(text) : program;
        Object[] values = new Object[row.getArity()];
        for (int at = 0; at < values.length; at++) {
            values[at] = row.getField(at);
        }
        String result = program.ranks() ? SqlProgram.kept(values) : program.result(values);
        if (result != null) {
            out.collect(result);
        }
    }
}
