package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Reads the filters out of the coordinator's notes. */
class SessionNoteTest {
    @Test
    void theFiltersOfANoteAreRead() {
        assertEquals(List.of("a/b", "c/#"), SessionNote.filters("{\"store\": \"x\", \"topics\": [\"a/b\", \"c/#\"]}"));
        assertEquals(List.of("Straße \"1\"\\]"),
                SessionNote.filters("{\"topics\":[\"Stra\\u00dfe \\\"1\\\"\\\\]\"], \"n\": 1}"));
    }

    @Test
    void otherContentHasNoFilters() {
        for (String text : List.of("", "{}", "{\"topics\": []}", "{\"topics\": [\"a\"", "[\"topics\"]", "{\"topics\": 3}")) {
            assertEquals(List.of(), SessionNote.filters(text), text);
        }
    }

    @Test
    void aHostileNoteTakesNoTime() {
        String text = "{\"topics\": [" + "\"a\",".repeat(200_000) + "\"\\";
        assertTimeoutPreemptively(Duration.ofSeconds(10), () -> SessionNote.filters(text));
    }
}
