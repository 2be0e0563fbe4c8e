package io.speck.sql;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Messages as rows of the columns that a query reads. */
final class RowDecoder {
    private static final int SHOWN = 60; // characters of a value in a reason
    private static final char REPLACEMENT = '\uFFFD';
    private static final Pattern WHOLE = Pattern.compile("[+-]?\\d{1,19}");
    private static final Pattern DECIMAL = Pattern.compile("([+-]?\\d{1,19})(?:\\.(\\d{1,9}))?");

    private final boolean csv;
    private final Column[] columns;

    RowDecoder(String format, List<Column> columns) {
        csv = format.equals("csv");
        this.columns = columns.toArray(new Column[0]);
    }

    /** @throws UnparsableMessageException if the message does not fit */
    Object[] row(String topic, byte[] content) {
        String text = text(content);
        List<String> fields = csv ? Csv.fields(text) : null;
        Map<?, ?> data = csv ? null : object(text);
        if (csv) {
            checkFields(fields);
        }
        Object[] row = new Object[columns.length];
        for (int at = 0; at < columns.length; at++) {
            Column column = columns[at];
            row[at] = column.position() == Column.TOPIC ? topic
                    : value(column, csv ? fields.get(column.position()) : data.get(column.name()));
        }
        return row;
    }

    static String text(byte[] content) {
        String text = new String(content, StandardCharsets.UTF_8); // replaces what is not UTF-8, and is faster
        if (text.indexOf(REPLACEMENT) < 0) {
            return text;
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString();
        } catch (CharacterCodingException e) {
            throw new UnparsableMessageException("it is not UTF-8");
        }
    }

    private static Map<?, ?> object(String text) {
        if (json(text) instanceof Map<?, ?> object) {
            return object;
        }
        throw new UnparsableMessageException("it is not a JSON object");
    }

    /** @throws UnparsableMessageException if the text is not JSON */
    static Object json(String text) {
        try {
            return JsonParser.parse(text);
        } catch (IllegalArgumentException e) {
            throw new UnparsableMessageException(e.getMessage());
        }
    }

    private void checkFields(List<String> fields) {
        for (Column column : columns) {
            if (column.position() >= fields.size()) {
                throw new UnparsableMessageException("column '" + column.name() + "' is missing (the line has "
                        + fields.size() + " fields)");
            }
        }
    }

    private Object value(Column column, Object field) {
        if (field == null) {
            if (column.nullable()) {
                return null;
            }
            throw new UnparsableMessageException("column '" + column.name() + "' is missing or null (expected "
                    + column.written() + ")");
        }
        Object value = read(column, field);
        if (value == null) {
            throw new UnparsableMessageException("column '" + column.name() + "' is " + shown(field) + " (expected "
                    + column.written() + ")");
        }
        return value;
    }

    private static String shown(Object field) {
        if (field instanceof Map) {
            return "an object";
        }
        if (field instanceof List) {
            return "a list";
        }
        String text = field instanceof JsonParser.Number number ? number.text()
                : field instanceof String ? "'" + field + "'" : field.toString();
        return text.codePointCount(0, text.length()) <= SHOWN ? text
                : text.substring(0, text.offsetByCodePoints(0, SHOWN)) + "...";
    }

    /** Returns the value of a field; null if it is of another type than the column. */
    Object read(Column column, Object field) {
        switch (column.type()) {
            case "boolean":
                return csv ? Expression.bool((String) field) : field instanceof Boolean ? field : null;
            case "int":
                Long number = whole(number(field));
                return number != null && number == number.intValue() ? number : null;
            case "bigint":
                return whole(number(field));
            case "double":
                String text = number(field);
                return text == null || text.indexOf(' ') >= 0 ? null : Numbers.decimal(text);
            case "string":
                return field instanceof String string && isText(string) ? string : null;
            default:
                return timestamp(column, field);
        }
    }

    /** Returns the text of a number; null for another value. */
    private String number(Object field) {
        return csv ? (String) field : field instanceof JsonParser.Number number ? number.text() : null;
    }

    private static Long whole(String text) {
        Long plain = text == null ? null : Numbers.plain(text);
        return plain != null || text == null ? plain : WHOLE.matcher(text).matches() ? Numbers.whole(text) : null;
    }

    /** False for half a pair of surrogates, which JSON can escape. */
    private static boolean isText(String text) {
        boolean none = true; // as in most texts
        for (int at = 0; at < text.length() && none; at++) {
            none = !Character.isSurrogate(text.charAt(at));
        }
        return none || text.codePoints().noneMatch(each -> each >= 0xd800 && each <= 0xdfff);
    }

    private Object timestamp(Column column, Object field) {
        Long time;
        if (column.unit().isEmpty()) {
            time = field instanceof String text ? Times.parse(text) : null;
        } else {
            time = since1970(column.unit(), number(field));
        }
        return time != null && time >= 0 && time <= Times.HIGHEST ? time : null;
    }

    private static Long since1970(String unit, String text) {
        Long plain = text == null ? null : Numbers.plain(text);
        if (plain != null && unit.equals("ms")) {
            return plain;
        }
        Matcher found = text == null ? null : DECIMAL.matcher(text);
        if (found == null || !found.matches()) {
            return null;
        }
        Long number = Numbers.whole(found.group(1));
        if (number == null || unit.equals("ms")) {
            return found.group(2) == null ? number : null;
        }
        boolean fits = number >= 0 && number <= Times.HIGHEST / 1000;
        return fits ? (Long) (number * 1000 + Times.millis(found.group(2))) : null;
    }
}
