package io.speck.sql;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Rows as bytes, from one process of a query to another: the number of values, then each value behind a byte for its
 * type. Numbers have seven bits a byte, the lowest first; a negative one is in the odd numbers.
 */
final class RowBytes {
    private static final byte NULL = 0;
    private static final byte FALSE = 1;
    private static final byte TRUE = 2;
    private static final byte WHOLE = 3;
    private static final byte DOUBLE = 4;
    private static final byte TEXT = 5;
    private static final int MOST_BYTES = 10; // of a number
    private static final int OF_VALUE = 9; // bytes, for the first estimate

    private byte[] bytes;
    private int at;

    private RowBytes(byte[] bytes) {
        this.bytes = bytes;
    }

    static byte[] of(Object[] row) {
        RowBytes written = new RowBytes(new byte[MOST_BYTES + OF_VALUE * row.length]);
        written.number(row.length);
        for (Object value : row) {
            written.value(value);
        }
        return Arrays.copyOf(written.bytes, written.at);
    }

    /** Returns the row that {@link #of} has written. */
    static Object[] row(byte[] bytes) {
        RowBytes read = new RowBytes(bytes);
        Object[] row = new Object[(int) read.number()];
        for (int index = 0; index < row.length; index++) {
            row[index] = read.value();
        }
        return row;
    }

    private void value(Object value) {
        reserve(1 + MOST_BYTES);
        if (value instanceof Long number) {
            bytes[at++] = WHOLE;
            number(number << 1 ^ number >> Long.SIZE - 1);
        } else if (value instanceof Double number) {
            bytes[at++] = DOUBLE;
            long bits = Double.doubleToRawLongBits(number);
            for (int shift = 0; shift < Long.SIZE; shift += Byte.SIZE) {
                bytes[at++] = (byte) (bits >>> shift);
            }
        } else if (value instanceof String text) {
            text(text.getBytes(StandardCharsets.UTF_8));
        } else {
            bytes[at++] = value == null ? NULL : (Boolean) value ? TRUE : FALSE;
        }
    }

    private void text(byte[] text) {
        reserve(1 + MOST_BYTES + text.length);
        bytes[at++] = TEXT;
        number(text.length);
        System.arraycopy(text, 0, bytes, at, text.length);
        at += text.length;
    }

    private void reserve(int count) {
        if (at + count > bytes.length) {
            bytes = Arrays.copyOf(bytes, 2 * bytes.length + count);
        }
    }

    private void number(long number) {
        long rest = number;
        while (rest >>> 7 != 0) {
            bytes[at++] = (byte) (rest & 0x7F | 0x80);
            rest >>>= 7;
        }
        bytes[at++] = (byte) rest;
    }

    private Object value() {
        byte type = bytes[at++];
        switch (type) {
            case NULL:
                return null;
            case FALSE:
                return false;
            case TRUE:
                return true;
            case WHOLE:
                long number = number();
                return number >>> 1 ^ -(number & 1);
            case DOUBLE:
                long bits = 0;
                for (int shift = 0; shift < Long.SIZE; shift += Byte.SIZE) {
                    bits |= (bytes[at++] & 0xFFL) << shift;
                }
                return Double.longBitsToDouble(bits);
            case TEXT:
                int length = (int) number();
                at += length;
                return new String(bytes, at - length, length, StandardCharsets.UTF_8);
            default:
                throw new IllegalArgumentException("a value has type " + type + " (expected at most " + TEXT + ")");
        }
    }

    private long number() {
        long number = 0;
        for (int shift = 0; ; shift += 7) {
            byte each = bytes[at++];
            number |= (long) (each & 0x7F) << shift;
            if (each >= 0) {
                return number;
            }
        }
    }
}
