package io.speck.flink.jobs;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Durations as Spark writes them: {@code 15 minutes}, {@code 1 day 12 hours}, {@code interval 2.5 seconds}. */
final class Interval {
    static final String EXPECTED = "a duration such as '15 minutes' or '1 day 12 hours'";
    private static final Pattern PART = Pattern.compile("\\s*\\+?(\\d{1,18})(?:\\.(\\d{1,9}))?\\s+([a-z]+?)s?(?=\\s|$)");
    private static final long SECOND = 1_000_000;
    private static final long DAY = 86_400 * SECOND;
    /** Spark counts a month of a watermark's delay as 31 days. */
    private static final long MONTH = 31 * DAY;

    private Interval() {}

    /**
     * The duration in microseconds, at least one.
     *
     * @throws IllegalArgumentException for anything else, and for months: a window has one length
     */
    static long window(String text) {
        long micros = micros(text);
        if (micros < 1 || text.toLowerCase(Locale.ROOT).matches(".*(month|year).*")) {
            throw new IllegalArgumentException(text);
        }
        return micros;
    }

    /**
     * The duration in microseconds, which may be none.
     *
     * @throws IllegalArgumentException for anything else
     */
    static long micros(String text) {
        String parts = text.strip().toLowerCase(Locale.ROOT).replaceFirst("^interval\\s+", "");
        Matcher matcher = PART.matcher(parts);
        long micros = 0;
        int end = 0;
        while (matcher.find() && matcher.start() == end) {
            micros = Math.addExact(micros, micros(matcher.group(1), matcher.group(2), matcher.group(3)));
            end = matcher.end();
        }
        if (end == 0 || end < parts.length()) {
            throw new IllegalArgumentException(text);
        }
        return micros;
    }

    private static long micros(String whole, String fraction, String unit) {
        long micros = unit(unit);
        if (fraction != null && micros != SECOND) {
            throw new IllegalArgumentException("a fraction of a " + unit);
        }
        try {
            long rest = fraction == null ? 0 : Long.parseLong((fraction + "000000000").substring(0, 9)) / 1000;
            return Math.addExact(Math.multiplyExact(Long.parseLong(whole), micros), rest);
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException(whole + " " + unit, e);
        }
    }

    private static long unit(String name) {
        return switch (name) {
            case "microsecond" -> 1;
            case "millisecond" -> 1000;
            case "second" -> SECOND;
            case "minute" -> 60 * SECOND;
            case "hour" -> 3600 * SECOND;
            case "day" -> DAY;
            case "week" -> 7 * DAY;
            case "month" -> MONTH;
            case "year" -> 12 * MONTH;
            default -> throw new IllegalArgumentException("unit '" + name + "'");
        };
    }
}
