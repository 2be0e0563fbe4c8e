package io.speck.spark.mqtt.sql;

import io.speck.sql.SqlProgram;
import io.speck.sql.Watermarks;
import java.util.List;
import org.apache.spark.sql.api.java.UDF3;

/** The results of a message by a query without windows: one text, or none. */
public final class DecodeToText implements UDF3<String, byte[], String, List<String>> {
    private static final long serialVersionUID = 1L;

    /** The progress that was sent by this task; null before its first message. */
    private transient Watermarks sent;

    @Override
    public List<String> call(String topic, byte[] value, String program) {
        SqlProgram query = SqlProgram.of(program);
        sent = sent == null ? query.watermarks() : sent;
        String text = query.text(topic, value, sent);
        return text == null ? List.of() : List.of(text);
    }
}
