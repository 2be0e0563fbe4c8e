package io.speck.mqtt.stamp;

import java.util.Arrays;

/** Writes the sequences of stamps (see {@link Stamp}) as bytes: joining texts takes several times as long. */
public final class SequenceBytes {
    private static final byte[] DIGITS = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};

    private SequenceBytes() {}

    /** Returns the sequence of a counted stamp; the prefix is that of its partition and epoch. */
    public static byte[] counted(byte[] prefix, long index) {
        int end = prefix.length + digits(index);
        byte[] sequence = Arrays.copyOf(prefix, end);
        putNumber(sequence, end, index);
        return sequence;
    }

    /**
     * Returns the sequence of a derived stamp.
     *
     * @param prefix of its partition and epoch
     * @param path what stands between its index and the number of the output, dots included
     * @param fingerprint of {@link Stamp}
     */
    static byte[] derived(byte[] prefix, long index, byte[] path, int output, long fingerprint) {
        int indexEnd = prefix.length + digits(index);
        int outputEnd = indexEnd + path.length + digits(output);
        boolean marked = fingerprint != Stamp.NO_FINGERPRINT;
        byte[] sequence = Arrays.copyOf(prefix, outputEnd + (marked ? Stamp.FINGERPRINT_LENGTH : 0));
        putNumber(sequence, indexEnd, index);
        System.arraycopy(path, 0, sequence, indexEnd, path.length);
        putNumber(sequence, outputEnd, output);
        if (marked) {
            sequence[outputEnd] = Stamp.BEFORE_FINGERPRINT;
            putHexadecimal(sequence, fingerprint);
        }
        return sequence;
    }

    private static int digits(long number) {
        int digits = 1;
        for (long rest = number; rest >= 10; rest /= 10) {
            digits++;
        }
        return digits;
    }

    /** Writes a number, which is not negative, so that it ends here. */
    private static void putNumber(byte[] bytes, int end, long number) {
        long rest = number;
        int place = end;
        do {
            bytes[--place] = DIGITS[(int) (rest % 10)];
            rest /= 10;
        } while (rest > 0);
    }

    /** Writes eight digits at the end. */
    private static void putHexadecimal(byte[] bytes, long number) {
        int rest = (int) number;
        for (int place = bytes.length - 1; place >= bytes.length - 2 * Integer.BYTES; place--) {
            bytes[place] = DIGITS[rest & 0xF];
            rest >>>= 4;
        }
    }
}
