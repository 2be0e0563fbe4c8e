package io.speck.mqtt.stamp;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Reads the stamps of one topic's messages. Those of one writer and epoch follow each other and differ in their ends
 * alone, so that the rest is parsed once. Not thread-safe.
 */
public final class StampReader {
    private static final byte[] NOTHING = {};

    private byte[] lastJob = NOTHING;
    private byte[] lastPrefix = NOTHING;
    private Stamp.Beginning beginning;

    /** Reads the two properties of a stamp, in UTF-8; null if they do not hold a valid one. */
    public Stamp read(byte[] job, byte[] sequence) {
        if (job == null || sequence == null || sequence.length > Stamp.LONGEST_SEQUENCE) {
            return null;
        }
        if (beginning == null || !Arrays.equals(job, lastJob) || !startsWith(sequence, lastPrefix)) {
            begin(job, sequence);
        }
        return beginning == null ? null : beginning.stamp(text(sequence, lastPrefix.length));
    }

    private void begin(byte[] job, byte[] sequence) {
        String text = text(sequence, 0);
        beginning = Stamp.Beginning.of(text(job, 0), text);
        lastJob = job;
        lastPrefix = beginning == null ? NOTHING : Arrays.copyOf(sequence, Stamp.Beginning.length(text));
    }

    private static boolean startsWith(byte[] bytes, byte[] prefix) {
        return bytes.length >= prefix.length && Arrays.equals(bytes, 0, prefix.length, prefix, 0, prefix.length);
    }

    /** Bytes beyond ASCII, which no stamp has, become characters that no stamp has either. */
    private static String text(byte[] bytes, int from) {
        return new String(bytes, from, bytes.length - from, StandardCharsets.ISO_8859_1);
    }
}
