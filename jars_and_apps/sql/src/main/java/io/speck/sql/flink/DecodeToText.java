package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.SqlProgram;
import io.speck.sql.Watermarks;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** The results of messages by a query without windows. */
final class DecodeToText implements FlatMapFunction<Received, String> {
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram program;
    /** The progress that was sent since the start: another message of it after a restart does no harm. */
    private transient Watermarks sent;

    DecodeToText(String program) {
        text = program;
    }

    @Override
    public void flatMap(Received message, Collector<String> out) {
        if (program == null) {
            program = SqlProgram.of(text);
            sent = program.watermarks();
        }
        String result = program.text(message.topic(), message.payload(), sent);
        if (result != null) {
            out.collect(result);
        }
    }
}
