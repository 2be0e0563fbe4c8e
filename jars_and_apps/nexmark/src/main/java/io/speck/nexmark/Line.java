package io.speck.nexmark;

/**
 * The line of one event, row or mark of progress: {@code KIND,TIME,FIELD...}, time in milliseconds since 1970.
 *
 * <pre>
 * P,time,id,name,email,creditCard,city,state,extra                       a person registers
 * A,time,id,item,description,initialBid,reserve,expires,seller,category,extra   an auction is opened
 * B,time,auction,bidder,price,extra                                      a bid
 * R,time,...                                                             a row of a result or of a part of one
 * W,time                                                                 progress: all later lines of the topic are of this time or later
 * </pre>
 */
final class Line {
    /** The time of the mark at the end of a bounded stream. */
    static final long END = Long.MAX_VALUE;

    static final char PERSON = 'P';
    static final char AUCTION = 'A';
    static final char BID = 'B';
    static final char ROW = 'R';
    static final char PROGRESS = 'W';

    /** The number of the field with the time. */
    static final int TIME = 1;

    private Line() {}

    static char kind(String line) {
        return line.isEmpty() ? 0 : line.charAt(0);
    }

    static boolean is(String line, char kind) {
        return kind(line) == kind;
    }

    /** @throws IllegalArgumentException if the line has no time */
    static long time(String line) {
        return number(line, TIME);
    }

    /**
     * Returns a field, counted from 0, the kind.
     *
     * @throws IllegalArgumentException if the line has fewer
     */
    static String field(String line, int index) {
        int start = 0;
        for (int each = 0; each < index; each++) {
            start = line.indexOf(',', start) + 1;
            if (start == 0) {
                throw new IllegalArgumentException("line '" + line + "' has no field " + index + " (counted from 0)");
            }
        }
        int end = line.indexOf(',', start);
        return line.substring(start, end < 0 ? line.length() : end);
    }

    /** @throws IllegalArgumentException if the field is missing or no whole number */
    static long number(String line, int index) {
        String field = field(line, index);
        try {
            return Long.parseLong(field);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("line '" + line + "': field " + index + " is '" + field
                    + "' (expected a whole number)", e);
        }
    }

    static String of(char kind, long time, Object... fields) {
        StringBuilder line = new StringBuilder().append(kind).append(',').append(time);
        for (Object field : fields) {
            line.append(',').append(field);
        }
        return line.toString();
    }

    static String row(long time, Object... fields) {
        return of(ROW, time, fields);
    }

    static String progress(long time) {
        return of(PROGRESS, time);
    }
}
