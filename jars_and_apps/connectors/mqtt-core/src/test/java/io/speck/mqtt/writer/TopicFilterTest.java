package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Matches topics against filters. */
class TopicFilterTest {
    @Test
    void topicFiltersCoverWhatTheyShould() {
        for (String[] each : new String[][] {{"a", "a"}, {"a/+", "a/b"}, {"#", "a/b"}, {"a/#", "a"}, {"a/#", "a/b/c"},
            {"+/b", "a/b"}}) {
            assertTrue(TopicFilter.matches(each[0], each[1]), each[0]);
        }
        for (String[] each : new String[][] {{"a", "b"}, {"a", "a/b"}, {"a/+", "a"}, {"a/+", "a/b/c"}, {"+", "$a"},
            {"#", "$a/b"}}) {
            assertEquals(false, TopicFilter.matches(each[0], each[1]), each[0]);
        }
    }
}
