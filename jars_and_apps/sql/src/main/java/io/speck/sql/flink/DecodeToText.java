package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.sql.Sender;
import io.speck.sql.SqlProgram;
import java.io.IOError;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/**
 * The results of messages by a query without windows. Rows that wait for others of their frame are in no state: the
 * source begins with their messages again.
 */
final class DecodeToText implements FlatMapFunction<Received, String> {
    private static final long serialVersionUID = 1L;

    private final String text;
    /** Null before the first message. The progress that it has sent is that since the start: once more does no harm. */
    private transient Sender sender;

    DecodeToText(String program) {
        text = program;
    }

    /** @param message one without a topic says that no row may wait any longer */
    @Override
    public void flatMap(Received message, Collector<String> out) {
        sender = sender == null ? SqlProgram.of(text).sender() : sender;
        CurrentInput input = CurrentInput.ofThread();
        boolean waited = sender.waits();
        String result = message.topic() == null ? sender.close()
                : sender.text(message.topic(), message.payload(), input.mayWait());
        try {
            if (result != null) {
                out.collect(result);
            }
        } catch (RuntimeException e) {
            if (waited) { // rows of other messages were in the frame: this one alone must not be blamed, and left out
                throw new IOError(e);
            }
            throw e;
        }
        input.hold(sender.waits());
    }
}
