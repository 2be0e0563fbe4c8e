package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.SqlProgram;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** The results of messages by a query without windows. */
final class DecodeToText implements FlatMapFunction<Received, String> {
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram program;

    DecodeToText(String program) {
        text = program;
    }

    @Override
    public void flatMap(Received message, Collector<String> out) {
        program = program == null ? SqlProgram.of(text) : program;
        Object[] row = program.row(message.topic(), message.payload());
        if (row != null) {
            out.collect(program.result(row));
        }
    }
}
