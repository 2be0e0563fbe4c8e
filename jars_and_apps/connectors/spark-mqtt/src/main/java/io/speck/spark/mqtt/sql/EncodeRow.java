package io.speck.spark.mqtt.sql;

import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF2;

/** The result of a row behind the windows of a query: one text, or none. */
public final class EncodeRow implements UDF2<Row, Object, List<String>> {
    private static final long serialVersionUID = 1L;

    private final NamedProgram programs = new NamedProgram();

    @Override
    public List<String> call(Row row, Object program) {
        Object[] values = new Object[row.size()];
        for (int at = 0; at < values.length; at++) {
            values[at] = row.get(at);
        }
        String result = programs.of(program).result(values);
        return result == null ? List.of() : List.of(result);
    }
}
