package io.speck.mqtt.stamp;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;

/**
 * The binary form of a stamp, of some 20 bytes, which stands for the two texts of {@link Stamp} and is read back to
 * exactly these. Of the job it has a hash, which a reader resolves by the names of the writers that its coordinator
 * named; all else is in the bytes themselves.
 *
 * <p>Form: a byte of flags; the lowest 3 bytes of the CRC-32C of the job's name; the run; partition and epoch unless
 * both are 0; index; fingerprint, 4 bytes, if there is one; the elements of the path up to the end, each one higher, and
 * 0 for {@link Stamp#NEWEST}. The path {@code 0} alone is left out. Numbers are {@link Varint}s. A run is 4 bytes (eight
 * hexadecimal digits), 8 bytes (a number in base 36), either 5 or 8 bytes (such a number behind a {@code d}, with or
 * without a fingerprint) or a length and a text; behind any of the first three follows the number of an incarnation or
 * origin, if there is one, shifted by a bit that is 1 for an origin.
 *
 * <p>The flags, from the highest bit: 10 for this version; two bits for the form of the run; number behind the run;
 * partition and epoch; path; fingerprint. Not thread-safe: the last run is cached.
 */
public final class CompactForm {
    /** The Java property of a writer's process that permits this form ({@code compact}) or not ({@code text}). */
    public static final String PROPERTY = "speck.sink.stamps";
    private static final String COMPACT = "compact";
    private static final String TEXTS = "text";

    private static final int VERSION = 0x80; // no text in UTF-8 begins so
    private static final int VERSION_BITS = 0xC0;
    private static final int FORM_SHIFT = 4;
    private static final int FORM_BITS = 3;
    private static final int NUMBERED = 8;
    private static final int PLACED = 4;
    private static final int DERIVED = 2;
    private static final int FINGERPRINTED = 1;

    private static final int TEXT = 0;
    private static final int OF_WAY = 1;
    private static final int BASE_36 = 2;
    private static final int HEXADECIMAL = 3;

    private static final Pattern NUMBERED_RUN = Pattern.compile("(.+?)\\.(o?)([1-9]\\d{0,17})");
    private static final Pattern EIGHT_DIGITS = Pattern.compile("[0-9a-f]{8}");
    private static final Pattern NUMBER_36 = Pattern.compile("0|[1-9a-z][0-9a-z]{0,12}");
    private static final HexFormat HEXADECIMAL_DIGITS = HexFormat.of();
    private static final String WAY = "d";
    private static final int HASH_BYTES = 3;
    private static final int HASH_MASK = (1 << HASH_BYTES * Byte.SIZE) - 1;
    private static final int LONGEST = 255;

    private String lastRun;
    private boolean lastIsFingerprinted;
    private int lastRunFlags;
    private byte[] lastRunBytes = {};

    /**
     * What the bytes say.
     *
     * @param job hash of the writing job's name, see {@link #hash}
     * @param sequence the rest of the stamp, see {@link Stamp}
     */
    public record Read(int job, String sequence) {
        /** Stands for the name of a job in the hash of a message: stable, whether the name is known or not. */
        public String mark() {
            return CompactForm.mark(job);
        }
    }

    /** The topics for which the writers of a process may send this form: all, those between parts of a query, or none. */
    public enum Permission {
        ALL,
        PARTS,
        NONE;

        /** Returns that of this process, by {@link #PROPERTY}. */
        public static Permission ofProcess() {
            String value = System.getProperty(PROPERTY);
            return COMPACT.equals(value) ? ALL : TEXTS.equals(value) ? NONE : PARTS;
        }
    }

    /** True if the writers of this process may send this form to any topic. */
    public static boolean permitted() {
        return Permission.ofProcess() == Permission.ALL;
    }

    /**
     * Returns the 24 bits that stand for the name of a job.
     *
     * <p>They are the lowest ones, since an earlier form had all 32, highest first: a message in it, which may have waited
     * in a session, is of an unknown writer then. It would otherwise be read with wrong numbers.
     */
    public static int hash(String job) {
        CRC32C crc = new CRC32C();
        crc.update(job.getBytes(StandardCharsets.UTF_8));
        return (int) crc.getValue() & HASH_MASK;
    }

    /** Returns the text that stands for a job with this hash where its name may be unknown; no name is like it. */
    public static String mark(int job) {
        return "#" + Integer.toHexString(job);
    }

    // ---- writing ----

    /** Returns the binary form of a stamp. */
    public byte[] encode(Stamp stamp) {
        if (stamp.hasFingerprint() != lastIsFingerprinted || !stamp.run().equals(lastRun)) {
            cache(stamp.run(), stamp.hasFingerprint());
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(32);
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            boolean placed = stamp.partition() != 0 || stamp.epoch() != 0;
            out.writeByte(VERSION | lastRunFlags | (placed ? PLACED : 0) | (stamp.derived() ? DERIVED : 0)
                    | (stamp.hasFingerprint() ? FINGERPRINTED : 0));
            writeLowest(hash(stamp.job()), HASH_BYTES, out);
            out.write(lastRunBytes);
            if (placed) {
                Varint.write(out, stamp.partition());
                Varint.write(out, stamp.epoch());
            }
            Varint.write(out, stamp.index());
            if (stamp.hasFingerprint()) {
                out.writeInt((int) stamp.fingerprint());
            }
            writePath(stamp.path(), out);
        } catch (IOException e) {
            throw new UncheckedIOException(e); // not from memory
        }
        return bytes.toByteArray();
    }

    private static void writePath(String path, DataOutputStream out) throws IOException {
        if (path.isEmpty() || path.equals(Stamp.FIRST)) {
            return;
        }
        for (String element : path.split("\\.")) {
            Varint.write(out, element.equals(Stamp.NEWEST) ? 0 : Long.parseLong(element) + 1);
        }
    }

    private void cache(String run, boolean fingerprinted) {
        Matcher numbered = NUMBERED_RUN.matcher(run);
        boolean found = numbered.matches();
        String base = found ? numbered.group(1) : run;
        int form = formOf(base, fingerprinted);
        boolean split = found && form != TEXT;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            switch (form) {
                case HEXADECIMAL -> out.writeInt(Integer.parseUnsignedInt(base, 16));
                case BASE_36 -> out.writeLong(inBase36(base));
                case OF_WAY -> writeLowest(inBase36(base.substring(1)), wayBytes(fingerprinted), out);
                default -> {
                    byte[] text = run.getBytes(StandardCharsets.UTF_8);
                    out.writeByte(text.length);
                    out.write(text);
                }
            }
            if (split) {
                Varint.write(out, Long.parseLong(numbered.group(3)) << 1 | (numbered.group(2).isEmpty() ? 0 : 1));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e); // not from memory
        }
        lastRun = run;
        lastIsFingerprinted = fingerprinted;
        lastRunFlags = form << FORM_SHIFT | (split ? NUMBERED : 0);
        lastRunBytes = bytes.toByteArray();
    }

    /** Returns the shortest form that is read back to this text. */
    private static int formOf(String base, boolean fingerprinted) {
        if (EIGHT_DIGITS.matcher(base).matches()) {
            return HEXADECIMAL;
        }
        long ofWay = base.startsWith(WAY) ? inBase36(base.substring(1)) : 0;
        if (ofWay != 0 && (!fingerprinted || ofWay >>> Stamp.POSITION_BITS == 0)) {
            return OF_WAY;
        }
        return inBase36(base) != 0 ? BASE_36 : TEXT;
    }

    /** Returns the number in base 36 that a text is, in 64 bits; 0 for another text. */
    private static long inBase36(String text) {
        try {
            return NUMBER_36.matcher(text).matches() ? Long.parseUnsignedLong(text, Character.MAX_RADIX) : 0;
        } catch (NumberFormatException e) {
            return 0; // of more than 64 bits
        }
    }

    private static int wayBytes(boolean fingerprinted) {
        return (fingerprinted ? Stamp.POSITION_BITS : Long.SIZE) / Byte.SIZE;
    }

    private static void writeLowest(long number, int bytes, DataOutputStream out) throws IOException {
        for (int i = bytes - 1; i >= 0; i--) {
            out.writeByte((int) (number >>> i * Byte.SIZE));
        }
    }

    // ---- reading ----

    /** Returns what the bytes say; null if they are not the binary form of a stamp, as those of another program. */
    public static Read decode(byte[] content) {
        if (content.length == 0 || content.length > LONGEST || (content[0] & VERSION_BITS) != VERSION) {
            return null;
        }
        try {
            ByteBuffer bytes = ByteBuffer.wrap(content);
            int flags = bytes.get();
            int job = (int) fixed(HASH_BYTES, bytes);
            String run = run(flags, bytes);
            long partition = (flags & PLACED) == 0 ? 0 : number(bytes);
            long epoch = (flags & PLACED) == 0 ? 0 : number(bytes);
            StringBuilder sequence = new StringBuilder(64);
            sequence.append(run).append('/').append(partition).append('/').append(epoch).append('/').append(number(bytes));
            String fingerprint = (flags & FINGERPRINTED) == 0 ? ""
                    : Stamp.fingerprintText(Integer.toUnsignedLong(bytes.getInt()));
            readPath((flags & DERIVED) != 0, bytes, sequence);
            String text = sequence.append(fingerprint).toString();
            return bytes.hasRemaining() || Stamp.parse("j", text) == null ? null : new Read(job, text);
        } catch (BufferUnderflowException e) {
            return null;
        }
    }

    private static void readPath(boolean derived, ByteBuffer bytes, StringBuilder sequence) {
        if (derived && !bytes.hasRemaining()) {
            sequence.append('.').append(Stamp.FIRST);
        }
        while (derived && bytes.hasRemaining()) {
            long element = number(bytes);
            sequence.append('.').append(element == 0 ? Stamp.NEWEST : Long.toString(element - 1));
        }
    }

    private static String run(int flags, ByteBuffer bytes) {
        String base = switch (flags >>> FORM_SHIFT & FORM_BITS) {
            case HEXADECIMAL -> HEXADECIMAL_DIGITS.toHexDigits(bytes.getInt());
            case BASE_36 -> Long.toUnsignedString(bytes.getLong(), Character.MAX_RADIX);
            case OF_WAY -> WAY + Long.toUnsignedString(fixed(wayBytes((flags & FINGERPRINTED) != 0), bytes),
                    Character.MAX_RADIX);
            default -> {
                byte[] text = new byte[bytes.get() & 0xFF];
                bytes.get(text);
                yield new String(text, StandardCharsets.UTF_8);
            }
        };
        if ((flags & NUMBERED) == 0) {
            return base;
        }
        long number = number(bytes);
        return base + ((number & 1) == 0 ? "." : ".o") + (number >>> 1);
    }

    private static long fixed(int length, ByteBuffer bytes) {
        long number = 0;
        for (int i = 0; i < length; i++) {
            number = number << Byte.SIZE | Byte.toUnsignedLong(bytes.get());
        }
        return number;
    }

    /** Reads a number below 2^63; others, as of a hostile publisher, are negative, and no stamp. */
    private static long number(ByteBuffer bytes) {
        long number = 0;
        for (int shift = 0; shift < Long.SIZE; shift += 7) {
            int octet = bytes.get();
            number |= (long) (octet & 0x7F) << shift;
            if (octet >= 0) {
                return number;
            }
        }
        return -1;
    }
}
