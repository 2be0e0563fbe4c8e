package io.speck.sql;

import java.util.List;

/** Rows as texts of messages. */
final class RowEncoder {
    private final boolean csv;
    private final Column[] columns;
    private final String[] names;

    RowEncoder(String format, List<Column> columns) {
        csv = format.equals("csv");
        this.columns = columns.toArray(new Column[0]);
        names = columns.stream().map(each -> quoted(each.name())).toArray(String[]::new);
    }

    String text(Object[] row) {
        StringBuilder text = new StringBuilder(csv ? "" : "{");
        for (int at = 0; at < columns.length; at++) {
            text.append(at > 0 ? "," : "");
            if (csv) {
                text.append(row[at] instanceof String string ? Csv.quote(string)
                        : row[at] == null ? "" : plain(columns[at], row[at]));
            } else {
                text.append(names[at]).append(':').append(json(columns[at], row[at]));
            }
        }
        return text.append(csv ? "" : "}").toString();
    }

    private static String json(Column column, Object value) {
        if (value == null) {
            return "null";
        }
        boolean text = value instanceof String || column.type().equals("timestamp");
        return text ? quoted(plain(column, value)) : plain(column, value);
    }

    private static String plain(Column column, Object value) {
        if (column.type().equals("timestamp")) {
            return Times.text((Long) value);
        }
        return value instanceof Double number ? Numbers.text(number) : value.toString();
    }

    static String quoted(String text) {
        StringBuilder found = new StringBuilder(text.length() + 2).append('"');
        for (int at = 0; at < text.length(); at++) {
            char each = text.charAt(at);
            if (each >= ' ' && each != '"' && each != '\\') {
                found.append(each);
                continue;
            }
            int escape = "\"\\\b\f\n\r\t".indexOf(each);
            if (escape >= 0) {
                found.append('\\').append("\"\\bfnrt".charAt(escape));
            } else {
                found.append(String.format("\\u%04x", (int) each));
            }
        }
        return found.append('"').toString();
    }
}
