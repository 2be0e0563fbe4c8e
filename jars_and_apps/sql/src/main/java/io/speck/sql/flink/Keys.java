package io.speck.sql.flink;

import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.types.Row;

/** The keys of a row before the windows, which follow the time. */
record Keys(int count) implements KeySelector<Row, Row> {
    @Override
    public Row getKey(Row row) {
        Row key = new Row(Math.max(1, count)); // without keys all rows have the same one, a null
        for (int at = 0; at < count; at++) {
            key.setField(at, row.getField(at + 1));
        }
        return key;
    }
}
