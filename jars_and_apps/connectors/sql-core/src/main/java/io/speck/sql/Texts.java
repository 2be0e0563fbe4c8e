package io.speck.sql;

import java.util.ArrayList;
import java.util.List;

/** Functions of texts, in which characters are code points. */
final class Texts {
    private Texts() {}

    /** Compares by code points: by chars, the ones beyond 16 bits would come before others. */
    static int compare(String one, String other) {
        int length = Math.min(one.length(), other.length());
        for (int at = 0; at < length; at++) {
            char a = one.charAt(at);
            char b = other.charAt(at);
            if (a != b) {
                boolean high = Character.isSurrogate(a);
                return high == Character.isSurrogate(b) ? Character.compare(a, b) : high ? 1 : -1;
            }
        }
        return Integer.compare(one.length(), other.length());
    }

    static long length(String text) {
        return text.codePointCount(0, text.length());
    }

    static String substring(String text, long start, Long length) {
        long characters = length(text);
        if (start > characters) {
            return length != null && length < 0 ? null : "";
        }
        if (length != null && length < 0) {
            return null;
        }
        long from = Math.max(1, start) - 1;
        long end = length == null ? characters : end(start, length, characters);
        return end <= from ? "" : text.substring(text.offsetByCodePoints(0, (int) from),
                text.offsetByCodePoints(0, (int) end));
    }

    private static long end(long start, long length, long characters) {
        long before = Math.max(start, Long.MIN_VALUE + 1) - 1; // below 0 for a start before the text
        boolean beyond = before >= 0 && length >= characters - before;
        return beyond ? characters : Math.max(0, Math.min(characters, before + length));
    }

    static String splitPart(String text, String delimiter, long number) {
        if (delimiter.isEmpty()) {
            return number == 1 ? text : "";
        }
        int start = 0;
        for (long each = 1; each < number; each++) {
            int end = text.indexOf(delimiter, start);
            if (end < 0) {
                return "";
            }
            start = end + delimiter.length();
        }
        int end = text.indexOf(delimiter, start);
        return number < 1 ? "" : text.substring(start, end < 0 ? text.length() : end);
    }

    static long position(String text, String part) {
        int at = text.indexOf(part);
        return at < 0 ? 0 : text.codePointCount(0, at) + 1;
    }

    static String trim(String text) {
        int start = 0;
        int end = text.length();
        while (start < end && text.charAt(start) == ' ') {
            start++;
        }
        while (end > start && text.charAt(end - 1) == ' ') {
            end--;
        }
        return text.substring(start, end);
    }

    /** The pattern of a LIKE: it takes at most length times length steps. */
    static final class Pattern {
        private static final int ANY_TEXT = -1;
        private static final int ONE = -2;

        private final int[] tokens;

        Pattern(String pattern, String escape) {
            List<Integer> found = new ArrayList<>();
            int[] characters = pattern.codePoints().toArray();
            int mark = escape.isEmpty() ? -3 : escape.codePointAt(0);
            for (int at = 0; at < characters.length; at++) {
                int each = characters[at];
                if (each == mark) {
                    at++;
                    found.add(at < characters.length ? characters[at] : each);
                } else {
                    found.add(each == '%' ? ANY_TEXT : each == '_' ? ONE : each);
                }
            }
            tokens = found.stream().mapToInt(Integer::intValue).toArray();
        }

        boolean matches(String text) {
            int[] characters = text.codePoints().toArray();
            int at = 0;
            int place = 0;
            int star = -1;
            int mark = 0;
            while (at < characters.length) {
                int token = place < tokens.length ? tokens[place] : -4;
                if (token == ANY_TEXT) {
                    star = place++;
                    mark = at;
                } else if (token == ONE || token == characters[at]) {
                    at++;
                    place++;
                } else if (star >= 0) {
                    at = ++mark;
                    place = star + 1;
                } else {
                    return false;
                }
            }
            while (place < tokens.length && tokens[place] == ANY_TEXT) {
                place++;
            }
            return place == tokens.length;
        }
    }
}
