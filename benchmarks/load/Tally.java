import java.io.IOException;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;

/**
 * The messages of one run that came back: which, how often, in which order, and after what time. Used by one thread, but
 * for {@link #lastNanos} and {@link #awaitAll}.
 *
 * <p>A payload is run, number, time and padding, all in ASCII.
 */
final class Tally {
    private static final int RUN_DIGITS = 6;
    private static final int NUMBER_DIGITS = 9;
    private static final int TIME_DIGITS = 19;
    static final int HEAD = RUN_DIGITS + NUMBER_DIGITS + TIME_DIGITS + 3;

    private final int run;
    private final BitSet seen;
    private final int[] latencyMicros;
    private int missing;
    private int duplicates;
    private int outOfOrder;
    private int highest = -1;
    volatile long lastNanos;
    private final CountDownLatch over = new CountDownLatch(1);
    private volatile IOException failure;

    Tally(int run, int messages) {
        this.run = run;
        this.missing = messages;
        this.seen = new BitSet(messages);
        this.latencyMicros = new int[messages];
    }

    /** Writes what stays the same in the payloads of a run. */
    static void prepare(byte[] packet, int payload, int end, int run) {
        Arrays.fill(packet, payload, end, (byte) 'x');
        digits(packet, payload, RUN_DIGITS, run);
        for (int at : new int[] {RUN_DIGITS, RUN_DIGITS + 1 + NUMBER_DIGITS, HEAD - 1}) {
            packet[payload + at] = ' ';
        }
    }

    /** Writes number and time of a message. */
    static void stamp(byte[] packet, int payload, int number) {
        int at = payload + RUN_DIGITS + 1;
        digits(packet, at, NUMBER_DIGITS, number);
        digits(packet, at + NUMBER_DIGITS + 1, TIME_DIGITS, System.nanoTime());
    }

    /** Counts a message that came at {@code now}; one of another run does not count. */
    void add(byte[] bytes, int payload, int end, long now) {
        if (end - payload < HEAD || number(bytes, payload, RUN_DIGITS) != run) {
            return;
        }
        int number = (int) number(bytes, payload + RUN_DIGITS + 1, NUMBER_DIGITS);
        long sent = number(bytes, payload + RUN_DIGITS + NUMBER_DIGITS + 2, TIME_DIGITS);
        if (seen.get(number)) {
            duplicates++;
            return;
        }
        seen.set(number);
        latencyMicros[number] = (int) ((now - sent) / 1000);
        lastNanos = now;
        missing--;
        if (number < highest) {
            outOfOrder++;
        }
        highest = Math.max(highest, number);
    }

    /** Ends the run; {@code failure} is null if everything came. */
    void end(IOException failure) {
        this.failure = failure;
        over.countDown();
    }

    /** Ends a run in which nothing came for a while. */
    void endQuiet(int seconds) {
        end(new IOException(missing + " messages had not come when " + seconds + " s were quiet"));
    }

    /** Waits for the end of the run. */
    void awaitAll() throws IOException, InterruptedException {
        over.await();
        if (failure != null) {
            throw failure;
        }
    }

    /** The number of messages that have not come. */
    int missing() {
        return missing;
    }

    String counts(int messages) {
        return String.format(Locale.ROOT, "{\"messages\": %d, \"received\": %d, \"duplicates\": %d, \"out_of_order\": %d",
                messages, seen.cardinality(), duplicates, outOfOrder);
    }

    String percentiles(int from) {
        int[] sorted = Arrays.copyOfRange(latencyMicros, from, latencyMicros.length);
        Arrays.sort(sorted);
        StringBuilder text = new StringBuilder();
        for (String percent : List.of("50", "90", "99", "99.9", "100")) {
            // The nearest rank: the smallest value that at least this percentage of all values does not exceed.
            int rank = Math.max(0, (int) Math.ceil(sorted.length * Double.parseDouble(percent) / 100.0) - 1);
            text.append(String.format(Locale.ROOT, ", \"p%s_ms\": %.3f", percent, sorted[rank] / 1e3));
        }
        return text.toString();
    }

    private static void digits(byte[] bytes, int at, int count, long value) {
        long left = value;
        for (int i = at + count - 1; i >= at; i--) {
            bytes[i] = (byte) ('0' + left % 10);
            left /= 10;
        }
    }

    private static long number(byte[] bytes, int at, int count) {
        long value = 0;
        for (int i = at; i < at + count; i++) {
            value = value * 10 + bytes[i] - '0';
        }
        return value;
    }
}
