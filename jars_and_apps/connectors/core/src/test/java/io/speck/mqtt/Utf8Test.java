package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Conversions between text and bytes refuse what Java's own replace. */
class Utf8Test {
    @ParameterizedTest
    @ValueSource(strings = {"", "ok", "Straße \uD83D\uDE00", "\u0000\uFEFF", "a real \uFFFD", "\uDBFF\uDFFF"})
    void textsAreTheSameAfterwards(String text) {
        byte[] bytes = Utf8.encode(text);
        assertArrayEquals(text.getBytes(StandardCharsets.UTF_8), bytes);
        assertEquals(text, Utf8.decode(bytes));
        assertNull(Utf8.fault(bytes));
    }

    @ParameterizedTest
    @CsvSource({"ff, byte 0xFF at position 0 of 1", "616200e282, byte 0xE2 at position 3 of 5",
            "6180, byte 0x80 at position 1 of 2", "c080, byte 0xC0 at position 0 of 2", "eda080, byte 0xED at position 0 of 3",
            "efbfbdff, byte 0xFF at position 3 of 4"})
    void theFirstInvalidByteIsNamed(String hex, String expected) {
        byte[] bytes = HexFormat.of().parseHex(hex);
        assertEquals(expected + " is not UTF-8", Utf8.fault(bytes));
        assertEquals(expected + " is not UTF-8", assertThrows(InvalidTextException.class, () -> Utf8.decode(bytes)).getMessage());
    }

    @Test
    void positionsAreThoseOfLongContents() {
        byte[] bytes = "ä".repeat(20_000).concat("x").getBytes(StandardCharsets.UTF_8);
        bytes[40_000] = (byte) 0xFE;
        assertEquals("byte 0xFE at position 40000 of 40001 is not UTF-8", Utf8.fault(bytes));
    }

    @ParameterizedTest
    @CsvSource(value = {"'a\u0000' U+0000", "'a\tb' U+0009", "'\u009f' U+009F", "'\ufdd0' U+FDD0", "'\uffff' U+FFFF",
            "'\uD83F\uDFFE' U+1FFFE"}, delimiter = ' ')
    void charactersThatBrokersRefuseAreNamed(String text, String expected) {
        assertEquals(expected, Utf8.refusedCharacter(text));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "Stra\u00dfe", "\uD83D\uDE00", "\ufffd"})
    void otherTextsAreNotRefused(String text) {
        assertNull(Utf8.refusedCharacter(text));
    }

    @ParameterizedTest
    @ValueSource(strings = {"a\uD800", "\uDC00b", "\uD800\uD800\uDC00", "\uDC00\uD800"})
    void halvesOfPairsHaveNoBytes(String text) {
        assertThrows(InvalidTextException.class, () -> Utf8.encode(text));
    }

    @Test
    void theSizeOfATextIsThatOfItsBytes() {
        for (String text : List.of("", "abc", "\u00e4\u07ff", "\u0800\uffff", "a\ud83d\ude00b", "\ud83d", "\ude00a", "\ud83da")) {
            assertEquals(text.getBytes(StandardCharsets.UTF_8).length, Utf8.length(text), text);
        }
    }
}
