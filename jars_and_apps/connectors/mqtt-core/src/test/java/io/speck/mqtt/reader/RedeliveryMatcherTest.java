package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Message;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Recognises redelivered messages, without a broker. */
class RedeliveryMatcherTest {
    /** Messages are written as id and content; '*' in the input marks DUP. */
    @ParameterizedTest
    @CsvSource({
        "'',      '',      '1a 2b',         'new1a new2b'",
        "'',      '',      '1a* 2a* 3a',    'new1a new2a new3a'",
        "'1a 2b', '',      '3a* 4b* 5a',    'new3a new4b new5a'",
        "'',      '1a',    '1a* 2a* 3a',    'hand1a new2a new3a'",
        "'1a 2a 3a', '',   '2a* 3a* 4a* 5a', 'old2a old3a new4a new5a'",
        "'1a 2b 1a 2b', '', '1a* 2b* 3a*',  'old1a old2b new3a'",
        "'1a 2b', '',      '2c* 1d',        'new2c new1d'",
        "'',      '1a 2b', '1a* 3c 2b*',    'hand1a new3c hand2b'",
        "'1a 2b', '',      '1a* 2b* 3c',    'old1a old2b new3c'",
        "'1a 2b', '',      '2b* 3c',        'old2b new3c'",
        "'1a 2b', '3c',    '2b* 3c* 4d',    'old2b hand3c new4d'",
        "'1a 2b', '3c 4d', '3c* 4d* 5e*',   'hand3c hand4d new5e'",
        "'1a 2b', '3a',    '3a* 1a',        'hand3a new1a'",
        "'1a 2b', '',      '1a* 7x',        'new1a new7x'",
        "'1a 2b', '',      '1a 2b',         'new1a new2b'",
        "'1a 2a', '3a',    '2a* 3a* 1a 2a', 'old2a hand3a new1a new2a'",
        "'',      '1a',    '1b*',           'new1b'",
        "'',      '1a',    '2b 1a',         'new2b new1a'",
        "'1a',    '1b',    '1b*',           'hand1b'",
    })
    void redeliveryIsRecognised(String acknowledged, String unacknowledged, String incoming, String expected) {
        List<String> seen = new ArrayList<>();
        RedeliveryMatcher matcher = new RedeliveryMatcher(messages(acknowledged), messages(unacknowledged));
        for (String each : incoming.split(" ")) {
            matcher.offer(messages(each.replace("*", "")).get(0), each.endsWith("*"), new Log(seen));
        }
        assertEquals(expected, String.join(" ", seen));
    }

    @Test
    void anUnfinishedRunIsHeldBackAndMayContinueLate() {
        List<String> seen = new ArrayList<>();
        RedeliveryMatcher matcher = new RedeliveryMatcher(messages("1a 2b"), List.of());
        matcher.offer(messages("1a").get(0), true, new Log(seen));
        assertTrue(matcher.holdsBack());
        matcher.resolve(new Log(seen));
        assertEquals(List.of("old1a"), seen);
        matcher.offer(messages("2b").get(0), true, new Log(seen));
        assertEquals(List.of("old1a", "old2b"), seen);
        assertTrue(matcher.over());
    }

    private static List<Message> messages(String text) {
        List<Message> messages = new ArrayList<>();
        for (String each : text.isEmpty() ? new String[0] : text.split(" ")) {
            messages.add(new Message(each.charAt(0) - '0', each.charAt(1), "t", new byte[0], 0, null));
        }
        return messages;
    }

    private record Log(List<String> seen) implements RedeliveryMatcher.Outcome {
        @Override
        public void redeliveredAcknowledged(List<Message> known) {
            known.forEach(each -> add("old", each));
        }

        @Override
        public void redeliveredUnacknowledged(Message known, Message incoming) {
            add("hand", incoming);
        }

        @Override
        public void newMessage(Message message) {
            add("new", message);
        }

        private void add(String verdict, Message message) {
            seen.add(verdict + message.packetId + (char) message.hash);
        }
    }
}
