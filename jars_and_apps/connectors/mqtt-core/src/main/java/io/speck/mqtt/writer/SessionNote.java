package io.speck.mqtt.writer;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The coordinator's retained note of a session, {@code speck/session/<session>}: {@code {"topics": [FILTER, ...]}}. */
final class SessionNote {
    static final String TOPICS = "speck/session/";
    private static final String STRING = "\"((?:[^\"\\\\]|\\\\.)*+)\"";
    private static final Pattern LIST =
            Pattern.compile("\"topics\"\\s*:\\s*\\[((?:\\s*" + STRING + "\\s*,?)*+)\\s*]");
    private static final Pattern EACH = Pattern.compile(STRING);
    private static final Pattern ESCAPE = Pattern.compile("\\\\(u([0-9a-fA-F]{4})|.)");

    private SessionNote() {}

    /** Returns the topic filters in a note; an empty list for other content. */
    static List<String> filters(String note) {
        List<String> filters = new ArrayList<>();
        Matcher list = LIST.matcher(note);
        if (list.find()) {
            Matcher each = EACH.matcher(list.group(1));
            while (each.find()) {
                filters.add(unescape(each.group(1)));
            }
        }
        return filters;
    }

    private static String unescape(String text) {
        return ESCAPE.matcher(text).replaceAll(found -> Matcher.quoteReplacement(found.group(2) == null
                ? control(found.group(1)) : Character.toString((char) Integer.parseInt(found.group(2), 16))));
    }

    private static String control(String letter) {
        return switch (letter) {
            case "n" -> "\n";
            case "t" -> "\t";
            case "r" -> "\r";
            case "b" -> "\b";
            case "f" -> "\f";
            default -> letter;
        };
    }
}
