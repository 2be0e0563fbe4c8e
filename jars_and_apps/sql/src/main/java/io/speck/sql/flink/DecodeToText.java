package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.Sender;
import io.speck.sql.SqlProgram;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** The results of messages, or of frames, by a query without windows. */
final class DecodeToText implements FlatMapFunction<Received, String> {
    private static final long serialVersionUID = 1L;

    private final String text;
    /** Null before the first message. */
    private transient Sender sender;

    DecodeToText(String program) {
        text = program;
    }

    @Override
    public void flatMap(Received message, Collector<String> out) {
        sender = sender == null ? SqlProgram.of(text).sender() : sender;
        sender.texts(message.topic(), message.payload(), false).forEach(out::collect);
    }
}
