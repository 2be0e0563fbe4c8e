package io.speck.spark.mqtt.sql;

import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF3;

/** The row of a message before the windows of a query, or none. */
public final class DecodeToRow implements UDF3<String, byte[], Object, List<Row>> {
    private static final long serialVersionUID = 1L;

    private final NamedProgram programs = new NamedProgram();

    @Override
    public List<Row> call(String topic, byte[] value, Object program) {
        Object[] row = programs.of(program).row(topic, value);
        return row == null ? List.of() : List.of(RowFactory.create(row));
    }
}
