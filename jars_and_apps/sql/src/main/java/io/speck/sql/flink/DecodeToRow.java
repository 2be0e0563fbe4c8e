package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.SqlProgram;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** The rows of messages before the windows of a query. */
final class DecodeToRow implements FlatMapFunction<Received, Row> {
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram program;

    DecodeToRow(String program) {
        text = program;
    }

    @Override
    public void flatMap(Received message, Collector<Row> out) {
        program = program == null ? SqlProgram.of(text) : program;
        Object[] row = program.row(message.topic(), message.payload());
        if (row != null) {
            out.collect(Row.of(row));
        }
    }
}
