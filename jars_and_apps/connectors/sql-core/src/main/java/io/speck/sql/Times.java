package io.speck.sql;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Timestamps as milliseconds since 1970 (UTC), and their texts as of ISO 8601. */
final class Times {
    static final long LOWEST = -62_135_596_800_000L; // the years 1 to 9999
    static final long HIGHEST = 253_402_300_799_999L;

    private static final long DAY = 86_400_000;
    private static final Pattern TEXT = Pattern.compile("(\\d{4})-(\\d\\d)-(\\d\\d)(?:[T ](\\d\\d):(\\d\\d)"
            + "(?::(\\d\\d)(?:\\.(\\d{1,9}))?)?(?:(Z)|([+-])(\\d\\d):(\\d\\d))?)?");

    private Times() {}

    /** Returns the timestamp that a text is; null if it is none. Without a zone it is in UTC. */
    static Long parse(String text) {
        Matcher found = TEXT.matcher(text);
        if (!found.matches()) {
            return null;
        }
        long moment;
        try {
            moment = LocalDateTime.of(part(found, 1), part(found, 2), part(found, 3), part(found, 4), part(found, 5),
                    part(found, 6)).toEpochSecond(ZoneOffset.UTC) * 1000;
        } catch (DateTimeException e) {
            return null;
        }
        int hours = part(found, 10);
        int minutes = part(found, 11);
        if (part(found, 1) == 0 || hours > 18 || minutes > 59) {
            return null;
        }
        long offset = (hours * 60L + minutes) * 60_000 * ("-".equals(found.group(9)) ? -1 : 1);
        return inRange(moment + millis(found.group(7)) - offset);
    }

    private static int part(Matcher found, int group) {
        String text = found.group(group);
        return text == null ? 0 : Integer.parseInt(text);
    }

    /** Returns the milliseconds of digits behind a point; null for none. */
    static int millis(String digits) {
        return digits == null ? 0 : Integer.parseInt((digits + "00").substring(0, 3));
    }

    /** Returns a timestamp of the years 1 to 9999; null for another. */
    static Long inRange(long time) {
        return LOWEST <= time && time <= HIGHEST ? time : null;
    }

    static String text(long time) {
        LocalDateTime at = at(time);
        StringBuilder text = new StringBuilder(24);
        add(text, at.getYear(), 1000, '-');
        add(text, at.getMonthValue(), 10, '-');
        add(text, at.getDayOfMonth(), 10, 'T');
        add(text, at.getHour(), 10, ':');
        add(text, at.getMinute(), 10, ':');
        add(text, at.getSecond(), 10, '.');
        add(text, Math.floorMod(time, 1000), 100, 'Z');
        return text.toString();
    }

    /** Appends digits, the first of which stands for a power of 10, and a mark. A format would write those of the locale. */
    private static void add(StringBuilder text, int number, int first, char mark) {
        for (int power = first; power > 0; power /= 10) {
            text.append((char) ('0' + number / power % 10));
        }
        text.append(mark);
    }

    private static LocalDateTime at(long time) {
        return LocalDateTime.ofInstant(Instant.ofEpochMilli(time), ZoneOffset.UTC);
    }

    static long field(String field, long time) {
        LocalDateTime at = at(time);
        switch (field) {
            case "year":
                return at.getYear();
            case "month":
                return at.getMonthValue();
            case "day":
                return at.getDayOfMonth();
            case "hour":
                return at.getHour();
            case "minute":
                return at.getMinute();
            case "second":
                return at.getSecond();
            case "dow":
                return at.getDayOfWeek().getValue() % 7;
            case "doy":
                return at.getDayOfYear();
            default:
                throw new IllegalArgumentException("field '" + field + "' of a timestamp is not known");
        }
    }

    static Long truncated(String unit, long time) {
        switch (unit) {
            case "second":
                return floor(time, 1000);
            case "minute":
                return floor(time, 60_000);
            case "hour":
                return floor(time, 3_600_000);
            case "day":
                return floor(time, DAY);
            case "week":
                return inRange((Math.floorDiv(Math.floorDiv(time, DAY) + 3, 7) * 7 - 3) * DAY); // 1970: a Thursday
            case "month":
                return at(time).truncatedTo(ChronoUnit.DAYS).withDayOfMonth(1).toEpochSecond(ZoneOffset.UTC) * 1000;
            case "year":
                return at(time).truncatedTo(ChronoUnit.DAYS).withDayOfYear(1).toEpochSecond(ZoneOffset.UTC) * 1000;
            default:
                throw new IllegalArgumentException("unit '" + unit + "' of a timestamp is not known");
        }
    }

    private static long floor(long time, long width) {
        return Math.floorDiv(time, width) * width;
    }
}
