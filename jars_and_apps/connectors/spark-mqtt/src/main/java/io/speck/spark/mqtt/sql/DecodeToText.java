package io.speck.spark.mqtt.sql;

import io.speck.mqtt.stamp.CurrentInput;
import io.speck.sql.Sender;
import java.util.List;
import org.apache.spark.sql.api.java.UDF3;

/**
 * The texts of a message by a query without windows: its result, or the frame of an input job, with the rows before it that
 * wait, or the results of a frame.
 */
public final class DecodeToText implements UDF3<String, byte[], Object, List<String>> {
    private static final long serialVersionUID = 1L;

    private final NamedProgram programs = new NamedProgram();
    /** Of this task; null before its first message. */
    private transient Sender sender;

    @Override
    public List<String> call(String topic, byte[] value, Object program) {
        sender = sender == null ? programs.of(program).sender() : sender;
        return sender.texts(topic, value, CurrentInput.ofThread().mayWait());
    }
}
