package io.speck.sql;

import java.util.ArrayList;
import java.util.List;

/** A line of CSV as of RFC 4180; a field that is empty and not in quotes is null. */
final class Csv {
    private final String line;
    private int at;

    private Csv(String line) {
        this.line = line;
    }

    /** @throws UnparsableMessageException for a quote that is not closed, or text after one */
    static List<String> fields(String text) {
        int end = text.endsWith("\n") ? text.length() - 1 : text.length();
        end = end > 0 && text.charAt(end - 1) == '\r' ? end - 1 : end;
        return new Csv(text.substring(0, end)).fields();
    }

    private List<String> fields() {
        List<String> found = new ArrayList<>();
        while (true) {
            found.add(field());
            if (at >= line.length()) {
                return found;
            }
            if (line.charAt(at) != ',') {
                throw new UnparsableMessageException("a comma is missing after field " + found.size());
            }
            at++;
        }
    }

    private String field() {
        if (at < line.length() && line.charAt(at) == '"') {
            return quoted();
        }
        int end = line.indexOf(',', at);
        end = end < 0 ? line.length() : end;
        String field = at == end ? null : line.substring(at, end);
        at = end;
        return field;
    }

    private String quoted() {
        StringBuilder field = new StringBuilder();
        at++;
        while (true) {
            int end = line.indexOf('"', at);
            if (end < 0) {
                throw new UnparsableMessageException("a quote is not closed");
            }
            field.append(line, at, end);
            at = end + 1;
            if (at >= line.length() || line.charAt(at) != '"') {
                return field.toString();
            }
            field.append('"');
            at++;
        }
    }

    static String quote(String text) {
        boolean plain = !text.isEmpty() && text.chars().noneMatch(each -> ",\"\r\n".indexOf(each) >= 0);
        return plain ? text : "\"" + text.replace("\"", "\"\"") + "\"";
    }
}
