package io.speck.mqtt.stamp;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * The identity of a written message: its writer and its number, or the number of the message that it comes from. A
 * logical message that is written again after a crash carries the same stamp.
 *
 * <p>On the wire it is two MQTT 5 user properties: {@code speck-job}, and {@code speck-seq} as
 * {@code RUN/PARTITION/EPOCH/INDEX} (counted) or {@code RUN/PARTITION/EPOCH/INDEX.PATH} (derived). Messages whose two
 * properties are equal are one message. Anybody may publish such properties, so texts beyond the bounds of this class
 * are no stamp.
 *
 * <p>A derived stamp that begins with the position of a message in a session ends in {@code ~FINGERPRINT}, eight
 * hexadecimal digits: a position may name another message later, once its broker has lost the end of the session.
 *
 * <p>A writer whose messages each replace the one before may repeat its work with other messages and numbers. It numbers
 * them upwards and writes {@code RUN/PARTITION/EPOCH/INDEX.newest}: a message that is not above an earlier one is void.
 *
 * @param job name of the writing job
 * @param run the lineage of the writer's checkpoint; a job that begins from an empty checkpoint has a new one
 * @param partition the writer within the job; the order of (epoch, index) holds within one partition
 * @param epoch number of the batch (or checkpoint) in the lineage
 * @param index position among the messages of this partition and epoch
 * @param path empty for a counted stamp; for a derived one, of each job on the way from the message with this partition,
 *     epoch and index, the index of the output among the outputs of its input, joined by dots; {@code newest} stands
 *     first if only the newest message counts
 * @param fingerprint for a derived stamp that begins with a position, the hash of the message there, 0 to 2^32 - 1;
 *     {@link #NO_FINGERPRINT} for all others
 */
public record Stamp(String job, String run, int partition, long epoch, long index, String path, long fingerprint) {
    public static final String JOB = "speck-job";
    public static final String SEQUENCE = "speck-seq";
    /** The path, or its first element, of stamps of which only the highest counts. */
    public static final String NEWEST = "newest";
    /** The path of the first output of a message without a stamp, and of each job after it that writes one output. */
    static final String FIRST = "0";
    public static final int LONGEST_PATH = 32;
    public static final long NO_FINGERPRINT = -1;
    /** With 100 ways to the outputs of a job, two of them have one name with a probability of 5 in 10^9. */
    static final int POSITION_BITS = 40;
    static final int LONGEST_NAME = 100;
    static final int LONGEST_SEQUENCE = 256;
    /** With the longest numbers before it and one element after it, a sequence is still within its bound. */
    private static final int LONGEST_PATH_TEXT = 160;
    static final char BEFORE_FINGERPRINT = '~';
    static final int FINGERPRINT_LENGTH = 1 + Integer.BYTES * 2;
    private static final HexFormat HEXADECIMAL = HexFormat.of();

    /** Creates a counted stamp. */
    public Stamp(String job, String run, int partition, long epoch, long index) {
        this(job, run, partition, epoch, index, "");
    }

    /** Creates a stamp that does not begin with a position. */
    public Stamp(String job, String run, int partition, long epoch, long index, String path) {
        this(job, run, partition, epoch, index, path, NO_FINGERPRINT);
    }

    /** True if a stamp may carry the text as job or run: 1 to 100 letters, digits, '.', '_' or '-'. */
    public static boolean isName(String text) {
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            boolean letter = each >= 'a' && each <= 'z' || each >= 'A' && each <= 'Z';
            if (!letter && !isDigit(each) && each != '.' && each != '_' && each != '-') {
                return false;
            }
        }
        return !text.isEmpty() && text.length() <= LONGEST_NAME;
    }

    private static boolean isDigit(char each) {
        return each >= '0' && each <= '9';
    }

    public boolean derived() {
        return !path.isEmpty();
    }

    /** True if a message that is not above an earlier one of its stream is void. */
    public boolean replaces() {
        return path.startsWith(NEWEST);
    }

    /**
     * Returns the run of the stamps that are derived from those of this job and run.
     *
     * <p>Two jobs may write the same topic, each with one output of the same message. So the run names the way to an
     * output: the job and the run of its input, and the source of the writing job that read it. It has 64 bits, and
     * {@link #POSITION_BITS} if the stamp begins with a position: the run of such a stamp changes only where positions
     * begin anew, that of a counted one with every form of the job, so that a reader meets fewer of the former.
     *
     * @param source number of the source among those of the writing job
     */
    String derivedRun(int source) {
        String way = String.join("\n", job, run, Integer.toString(source), foldedPath());
        return "d" + hash(way, hasFingerprint() ? POSITION_BITS : Long.SIZE);
    }

    boolean hasFingerprint() {
        return fingerprint != NO_FINGERPRINT;
    }

    /** Returns some bits of a hash, a multiple of 8. */
    private static String hash(String text, int bits) {
        return new BigInteger(1, Arrays.copyOf(sha256(text), bits / Byte.SIZE)).toString(Character.MAX_RADIX);
    }

    /**
     * Returns the identity of the message for a reader that reads it again on purpose: what derives from it then has other
     * names than what derived from it before.
     *
     * @param reading identifies that reading
     */
    public Stamp readAgain(String reading) {
        String again = "r" + hash(String.join("\n", run, reading), Long.SIZE);
        return new Stamp(job, again, partition, epoch, index, path, fingerprint);
    }

    /** True if what derives from the other stamp differs in nothing but epoch, index and fingerprint. */
    boolean sameStream(Stamp other) {
        return partition == other.partition && hasFingerprint() == other.hasFingerprint() && path.equals(other.path)
                && run.equals(other.run) && job.equals(other.job);
    }

    /** Returns the path in front of the index of an output. */
    String derivedPath() {
        return path.equals(foldedPath()) ? "" : path + ".";
    }

    /**
     * Returns a path that does not go on in that of an output: it is in the run, and a new one begins. Else empty. It is
     * that of the only output of most jobs, so that the path takes no byte of {@link CompactForm} after any number of
     * them; one that would become too long; or one of which only the newest message counts: the reader has seen to that,
     * and several tasks may write the outputs in another order.
     */
    String foldedPath() {
        boolean narrow = path.length() < 2 * LONGEST_PATH - 1; // so many elements of one digit
        boolean longest = !narrow && (path.length() > LONGEST_PATH_TEXT || elements() >= LONGEST_PATH);
        return longest || replaces() || path.equals(FIRST) ? path : "";
    }

    private static byte[] sha256(String text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java platform has it
        }
    }

    private int elements() {
        return path.isEmpty() ? 0 : 1 + (int) path.chars().filter(each -> each == '.').count();
    }

    public String sequence() {
        return prefix(run, partition, epoch) + (derived() ? index + "." + path + fingerprintText(fingerprint) : index);
    }

    /** Returns the end of a sequence with this fingerprint; empty for none. */
    static String fingerprintText(long fingerprint) {
        return fingerprint == NO_FINGERPRINT ? "" : BEFORE_FINGERPRINT + HEXADECIMAL.toHexDigits((int) fingerprint);
    }

    /** Returns the common prefix of the sequences of one partition and epoch, for writers that build many. */
    public static String prefix(String run, int partition, long epoch) {
        return run + "/" + partition + "/" + epoch + "/";
    }

    /** Parses the two properties; null if they do not hold a valid stamp. */
    public static Stamp parse(String job, String sequence) {
        if (job == null || sequence == null || sequence.length() > LONGEST_SEQUENCE) {
            return null;
        }
        Beginning beginning = Beginning.of(job, sequence);
        return beginning == null ? null : beginning.stamp(sequence.substring(Beginning.length(sequence)));
    }

    /** The part that the stamps of one writer and epoch share. */
    record Beginning(String job, String run, int partition, long epoch) {
        /** Parses the job and all of a sequence but its end; null if they are of no stamp. */
        static Beginning of(String job, String sequence) {
            int first = sequence.indexOf('/');
            int second = sequence.indexOf('/', first + 1);
            int third = sequence.indexOf('/', second + 1);
            if (first < 0 || second <= first || third <= second || !isName(job)) {
                return null;
            }
            String run = sequence.substring(0, first);
            long partition = number(sequence, first + 1, second);
            long epoch = number(sequence, second + 1, third);
            boolean valid = isName(run) && partition >= 0 && partition <= Integer.MAX_VALUE && epoch >= 0;
            return valid ? new Beginning(job, run, (int) partition, epoch) : null;
        }

        /** The length of the text that {@link #of} has parsed. */
        static int length(String sequence) {
            return sequence.indexOf('/', sequence.indexOf('/', sequence.indexOf('/') + 1) + 1) + 1;
        }

        /** Parses the end of a sequence: index, path and fingerprint; null if it is of no stamp. */
        Stamp stamp(String end) {
            int length = end.length() - FINGERPRINT_LENGTH;
            if (length < 0 || end.charAt(length) != BEFORE_FINGERPRINT) {
                return stamp(end, end.length(), NO_FINGERPRINT);
            }
            long fingerprint = fingerprint(end, length + 1);
            Stamp stamp = fingerprint == NO_FINGERPRINT ? null : stamp(end, length, fingerprint);
            return stamp != null && stamp.derived() && !stamp.replaces() ? stamp : null;
        }

        /** Parses index and path up to this length. */
        private Stamp stamp(String end, int length, long fingerprint) {
            int dot = end.indexOf('.');
            long index = number(end, 0, dot < 0 ? length : dot);
            String path = dot < 0 ? "" : end.substring(dot + 1, length);
            return index >= 0 && (dot < 0 || isPath(path))
                    ? new Stamp(job, run, partition, epoch, index, path, fingerprint) : null;
        }
    }

    /** Reads lower-case hexadecimal digits up to the end, so that a number has one text; -1 if there are others. */
    private static long fingerprint(String text, int from) {
        long fingerprint = 0;
        for (int i = from; i < text.length(); i++) {
            char each = text.charAt(i);
            if (!isDigit(each) && (each < 'a' || each > 'f')) {
                return NO_FINGERPRINT;
            }
            fingerprint = fingerprint << 4 | (isDigit(each) ? each - '0' : each - 'a' + 10);
        }
        return fingerprint;
    }

    private static boolean isPath(String path) {
        int elements = 0;
        for (int from = 0; from <= path.length(); elements++) {
            int dot = path.indexOf('.', from);
            int to = dot < 0 ? path.length() : dot;
            long element = number(path, from, to);
            boolean newest = from == 0 && path.startsWith(NEWEST) && to == NEWEST.length();
            if (!newest && (element < 0 || element > Integer.MAX_VALUE)) {
                return false;
            }
            from = to + 1;
        }
        return elements <= LONGEST_PATH;
    }

    /** Reads digits without leading zeros, so that a number has one text; -1 if they are not of a long. */
    private static long number(String text, int from, int to) {
        if (from >= to || text.charAt(from) == '0' && to - from > 1) {
            return -1;
        }
        long number = 0;
        for (int i = from; i < to; i++) {
            int digit = text.charAt(i) - '0';
            if (digit < 0 || digit > 9 || number > (Long.MAX_VALUE - digit) / 10) {
                return -1;
            }
            number = 10 * number + digit;
        }
        return number;
    }
}
