package io.speck.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A column of messages.
 *
 * @param type {@code boolean}, {@code int}, {@code bigint}, {@code double}, {@code string} or {@code timestamp}
 * @param unit of a timestamp: {@code ms}, {@code s}, or empty for a text
 * @param position in a line of CSV, counted from 0; {@link #TOPIC} for the topic of the message
 */
record Column(String name, String type, boolean nullable, String unit, int position) {
    static final int TOPIC = -1;

    static List<Column> list(Object data) {
        List<Column> found = new ArrayList<>();
        for (Object each : (List<?>) data) {
            Map<?, ?> column = (Map<?, ?>) each;
            int position = column.get("at") instanceof JsonParser.Number at ? Integer.parseInt(at.text()) : 0;
            found.add(new Column((String) column.get("name"), (String) column.get("type"),
                    (Boolean) column.get("null"), (String) column.get("unit"), position));
        }
        return found;
    }

    /** The type as users write it. */
    String written() {
        return type + (unit.isEmpty() ? "" : "(" + unit + ")") + (nullable ? "" : " not null");
    }
}
