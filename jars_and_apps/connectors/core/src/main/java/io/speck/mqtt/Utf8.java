package io.speck.mqtt;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/** Text as bytes in UTF-8, and back. Java's own conversions replace what is invalid; these refuse it. */
public final class Utf8 {
    private static final char REPLACEMENT = '\uFFFD';
    private static final int CHUNK = 8192;

    private Utf8() {}

    /** @throws InvalidTextException naming the first invalid byte */
    public static String decode(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.UTF_8);
        // A decoder with reports takes several times as long, so it looks only at what may have been replaced.
        String fault = text.indexOf(REPLACEMENT) < 0 ? null : fault(bytes);
        if (fault != null) {
            throw new InvalidTextException(fault);
        }
        return text;
    }

    /** Describes the first invalid byte; null if the bytes are text. Positions count from 0. */
    public static String fault(byte[] bytes) {
        return isAscii(bytes) ? null : faultBeyondAscii(bytes);
    }

    private static boolean isAscii(byte[] bytes) {
        for (byte each : bytes) {
            if (each < 0) {
                return false;
            }
        }
        return true;
    }

    private static String faultBeyondAscii(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        CharBuffer out = CharBuffer.allocate(Math.min(CHUNK, bytes.length)); // only the position of a fault is needed
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        CoderResult result;
        do {
            out.clear();
            result = decoder.decode(in, out, true);
        } while (result.isOverflow());
        return result.isError()
                ? String.format(Locale.ROOT, "byte 0x%02X at position %d of %d is not UTF-8", in.get(in.position()),
                        in.position(), bytes.length)
                : null;
    }

    /**
     * Names the first character of a text that a broker may refuse in a topic or a property (MQTT 5, 1.5.4): a control
     * character, or a code point that is no character. Mosquitto ends the connection. Null if there is none.
     */
    public static String refusedCharacter(String text) {
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            boolean isNone = each >= 0xFDD0 && each <= 0xFDEF || each >= 0xFFFE
                    || Character.isHighSurrogate(each) && (text.codePointAt(i) & 0xFFFE) == 0xFFFE;
            if (Character.isISOControl(each) || isNone) {
                return String.format(Locale.ROOT, "U+%04X", text.codePointAt(i));
            }
        }
        return null;
    }

    /** Returns the size of a text in UTF-8, in bytes; half of a surrogate pair counts as the '?' that replaces it. */
    public static int length(String text) {
        int bytes = text.length();
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (each >= 0x80) {
                boolean pair = Character.isSupplementaryCodePoint(text.codePointAt(i));
                bytes += pair ? 2 : Character.isSurrogate(each) ? 0 : each < 0x800 ? 1 : 2;
                i += pair ? 1 : 0;
            }
        }
        return bytes;
    }

    /** @throws InvalidTextException for half of a surrogate pair, which UTF-8 cannot express */
    public static byte[] encode(String text) {
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (!Character.isSurrogate(each)) {
                continue;
            }
            if (!Character.isSupplementaryCodePoint(text.codePointAt(i))) {
                throw new InvalidTextException(String.format(Locale.ROOT,
                        "U+%04X at position %d is half of a surrogate pair, which UTF-8 cannot express", (int) each, i));
            }
            i++;
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
