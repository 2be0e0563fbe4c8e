package io.speck.sql;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON as of RFC 8259: a {@link Map}, a {@link List}, a {@link String}, a {@link Boolean}, {@code null}, or a
 * {@link Number} as it is written.
 */
final class JsonParser {
    private static final int MOST_DEPTH = 500;

    /** A number, as it is written. */
    record Number(String text) {}

    private final String text;
    private int at;
    private int depth;

    private JsonParser(String text) {
        this.text = text;
    }

    /** @throws IllegalArgumentException if the text is not one value of JSON */
    static Object parse(String text) {
        JsonParser parser = new JsonParser(text);
        parser.skipSpace();
        Object value = parser.value();
        parser.skipSpace();
        if (parser.at != text.length()) {
            throw invalid();
        }
        return value;
    }

    private static IllegalArgumentException invalid() {
        return new IllegalArgumentException("it is not JSON");
    }

    private Object value() {
        switch (peek()) {
            case '{':
                return object();
            case '[':
                return list();
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw invalid();
        }
        at += word.length();
        return value;
    }

    private char peek() {
        if (at >= text.length()) {
            throw invalid();
        }
        return text.charAt(at);
    }

    private void skipSpace() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    /** Moves over a mark, and the space before and behind it; false if another character is there. */
    private boolean take(char mark) {
        skipSpace();
        if (peek() != mark) {
            return false;
        }
        at++;
        skipSpace();
        return true;
    }

    private Map<String, Object> object() {
        enter();
        Map<String, Object> found = new HashMap<>();
        at++;
        skipSpace();
        if (!take('}')) {
            do {
                if (peek() != '"') {
                    throw invalid();
                }
                String name = string();
                require(':');
                found.put(name, value());
            } while (take(','));
            requireEnd('}');
        }
        depth--;
        return found;
    }

    private List<Object> list() {
        enter();
        List<Object> found = new ArrayList<>();
        at++;
        skipSpace();
        if (!take(']')) {
            do {
                found.add(value());
            } while (take(','));
            requireEnd(']');
        }
        depth--;
        return found;
    }

    private void enter() {
        if (++depth > MOST_DEPTH) {
            throw invalid();
        }
    }

    private void require(char mark) {
        if (!take(mark)) {
            throw invalid();
        }
    }

    /** As {@link #require}, without the space behind: the end of the text may follow. */
    private void requireEnd(char mark) {
        if (peek() != mark) {
            throw invalid();
        }
        at++;
    }

    private String string() {
        int start = ++at;
        while (true) {
            char each = peek();
            if (each == '"') {
                return text.substring(start, at++);
            }
            if (each == '\\') {
                return escaped(start);
            }
            check(each);
            at++;
        }
    }

    private static void check(char each) {
        if (each < ' ') {
            throw invalid();
        }
    }

    private String escaped(int start) {
        StringBuilder found = new StringBuilder(text.substring(start, at));
        while (true) {
            char each = peek();
            at++;
            if (each == '"') {
                return found.toString();
            }
            check(each);
            found.append(each == '\\' ? escape() : each);
        }
    }

    private char escape() {
        char each = peek();
        at++;
        switch (each) {
            case '"':
            case '\\':
            case '/':
                return each;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                return unicode();
            default:
                throw invalid();
        }
    }

    private char unicode() {
        int code = 0;
        for (int end = at + 4; at < end; at++) {
            int digit = Character.digit(peek(), 16);
            if (digit < 0 || peek() > 'f') {
                throw invalid();
            }
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private Number number() {
        int start = at;
        if (peek() == '-') {
            at++;
        }
        if (peek() == '0') {
            at++;
        } else {
            digits();
        }
        if (at < text.length() && text.charAt(at) == '.') {
            at++;
            digits();
        }
        if (at < text.length() && (text.charAt(at) | ' ') == 'e') {
            at++;
            if (peek() == '+' || peek() == '-') {
                at++;
            }
            digits();
        }
        return new Number(text.substring(start, at));
    }

    private void digits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == start) {
            throw invalid();
        }
    }
}
