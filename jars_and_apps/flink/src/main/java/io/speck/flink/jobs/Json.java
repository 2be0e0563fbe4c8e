package io.speck.flink.jobs;

import java.util.List;
import java.util.stream.Collectors;

/** Texts as JSON (RFC 8259), escaped where they must be and nowhere else. */
final class Json {
    private Json() {}

    static String array(List<String> texts) {
        return texts.stream().map(Json::quoted).collect(Collectors.joining(",", "[", "]"));
    }

    static String quoted(String text) {
        return text.chars().mapToObj(Json::escaped).collect(Collectors.joining("", "\"", "\""));
    }

    private static String escaped(int unit) {
        return switch (unit) {
            case '"' -> "\\\"";
            case '\\' -> "\\\\";
            case '\b' -> "\\b";
            case '\f' -> "\\f";
            case '\n' -> "\\n";
            case '\r' -> "\\r";
            case '\t' -> "\\t";
            default -> unit < ' ' ? String.format("\\u%04X", unit) : String.valueOf((char) unit);
        };
    }
}
