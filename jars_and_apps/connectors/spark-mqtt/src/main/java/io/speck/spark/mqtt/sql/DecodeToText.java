package io.speck.spark.mqtt.sql;

import io.speck.sql.SqlProgram;
import java.util.List;
import org.apache.spark.sql.api.java.UDF3;

/** The results of a message by a query without windows: one text, or none. */
public final class DecodeToText implements UDF3<String, byte[], String, List<String>> {
    private static final long serialVersionUID = 1L;

    @Override
    public List<String> call(String topic, byte[] value, String program) {
        SqlProgram query = SqlProgram.of(program);
        Object[] row = query.row(topic, value);
        return row == null ? List.of() : List.of(query.result(row));
    }
}
