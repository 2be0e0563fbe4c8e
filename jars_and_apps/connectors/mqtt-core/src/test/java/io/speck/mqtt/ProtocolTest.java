package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The parts without a broker: addresses, stamps, marks, records, and what counts as redelivered. */
class ProtocolTest {
    @ParameterizedTest
    @CsvSource({"tcp://a:1883,tcp://a:1883", "mqtt://a,tcp://a:1883", "mqtts://a,mqtts://a:8883",
            "ssl://a:1,mqtts://a:1", "tcp://[::1]:5/,tcp://[::1]:5"})
    void addressIsRead(String text, String shown) {
        assertEquals(shown, BrokerAddress.parse(text).toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp:/x", "a:1883", "http://a", "tcp://a:99999", "tcp://a/b", ""})
    void badAddressIsRefused(String text) {
        assertThrows(InvalidSettingException.class, () -> BrokerAddress.parse(text));
    }

    @Test
    void noPasswordIsShown() {
        String fault = assertThrows(InvalidSettingException.class, () -> BrokerAddress.parse("tcp://u:secret@h:1"))
                .getMessage();
        assertFalse(fault.contains("secret"), fault);
        LoginFields fields = new LoginFields("tcp://h:1", "u", "secret", null, TlsFiles.NONE);
        Login login = fields.login(Assertions::fail);
        assertFalse((fields + " " + login + " " + Password.of("secret")).contains("secret"));
    }

    @Test
    void loginsThatDoNotFitAreRefused() {
        List<String> faults = new ArrayList<>();
        TlsFiles half = new TlsFiles(null, "/me.pem", null);
        assertNull(new LoginFields("tcp://h:1", null, "secret", "/secret", half).login(faults::add));
        assertEquals(List.of("a password without a username", "both a password and a password file",
                "a client certificate and its key belong together",
                "certificates for a broker that is not asked for TLS (expected mqtts://HOST:PORT)"), faults);
    }

    @Test
    void aPasswordInAFileIsReadWhenItIsNeeded(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("password");
        BrokerAddress broker = BrokerAddress.parse("tcp://h:1");
        String fault = assertThrows(BrokerException.class, () -> Password.in(file.toString()).reveal(broker))
                .getMessage();
        assertTrue(fault.contains("password' cannot be read"), fault);
        Files.writeString(file, "secret\n");
        assertEquals("secret", new String(Password.in(file.toString()).reveal(broker), StandardCharsets.UTF_8));
    }

    @Test
    void stampIsReadBack() {
        Stamp stamp = new Stamp("a/b", "run/1", 3, 17, 42);
        assertEquals(stamp, Stamp.parse("a/b", stamp.sequence()));
        assertNull(Stamp.parse("a", "1/2"));
        assertNull(Stamp.parse("a", "r/x/1/2"));
        assertNull(Stamp.parse(null, stamp.sequence()));
    }

    @Test
    void marksDropWhatWasSeen() {
        StampMarks marks = new StampMarks();
        assertTrue(marks.advance(new Stamp("j", "r", 0, 1, 5)));
        assertFalse(marks.advance(new Stamp("j", "r", 0, 1, 5)));
        assertFalse(marks.advance(new Stamp("j", "r", 0, 0, 9)));
        assertTrue(marks.advance(new Stamp("j", "r", 0, 2, 0)));
        assertTrue(marks.advance(new Stamp("j", "r", 1, 1, 5)), "another partition");
        assertTrue(marks.advance(new Stamp("j", "r2", 0, 0, 0)), "another incarnation");
    }

    @Test
    void marksAreBounded() {
        StampMarks marks = new StampMarks();
        for (int i = 0; i < StampMarks.MAXIMUM_STREAMS + 10; i++) {
            marks.advance(new Stamp("j" + i, "r", 0, 0, 0));
        }
        assertEquals(StampMarks.MAXIMUM_STREAMS, marks.size());
    }

    @Test
    void recordIsReadBack() throws IOException {
        StampMarks marks = new StampMarks();
        marks.advance(new Stamp("j", "r", 0, 1, 5));
        List<Message> messages = List.of(Message.awaited(65535, -7, 1_000, false),
                Message.awaited(1, 8, 1_300, true), Message.awaited(2, 9, 1_299, false));
        byte[] bytes = new BatchRecord("c", "tcp://h:1", 10, 12, 3, messages, marks).encode();
        BatchRecord read = BatchRecord.decode(bytes);
        assertEquals(List.of("c", "tcp://h:1", 10L, 12L, 3, marks),
                List.of(read.clientId(), read.broker(), read.start(), read.end(), read.partitions(), read.marks()));
        assertEquals(3, read.messages().size());
        assertTrue(read.messages().get(0).same(messages.get(0)));
        assertTrue(read.messages().get(1).duplicate);
        assertEquals(1_300, read.messages().get(2).receivedMillis);
    }

    @Test
    void brokenRecordIsRefused() {
        byte[] bytes = new BatchRecord("c", "b", 0, 0, 1, List.of(), new StampMarks()).encode();
        bytes[bytes.length - 1] ^= 1;
        assertThrows(IOException.class, () -> BatchRecord.decode(bytes));
        assertThrows(IOException.class, () -> BatchRecord.decode(new byte[3]));
    }

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
    void redeliveryIsRecognised(String acknowledged, String inHand, String incoming, String expected) {
        List<String> seen = new ArrayList<>();
        Redelivery redelivery = new Redelivery(messages(acknowledged), messages(inHand));
        for (String each : incoming.split(" ")) {
            redelivery.offer(messages(each.replace("*", "")).get(0), each.endsWith("*"), new Log(seen));
        }
        assertEquals(expected, String.join(" ", seen));
    }

    @Test
    void anUnfinishedRowIsHeldBackAndMayGoOnLate() {
        List<String> seen = new ArrayList<>();
        Redelivery redelivery = new Redelivery(messages("1a 2b"), List.of());
        redelivery.offer(messages("1a").get(0), true, new Log(seen));
        assertTrue(redelivery.undecided());
        redelivery.settle(new Log(seen));
        assertEquals(List.of("old1a"), seen);
        redelivery.offer(messages("2b").get(0), true, new Log(seen));
        assertEquals(List.of("old1a", "old2b"), seen);
        assertTrue(redelivery.over());
    }

    private static List<Message> messages(String text) {
        List<Message> messages = new ArrayList<>();
        for (String each : text.isEmpty() ? new String[0] : text.split(" ")) {
            messages.add(new Message(each.charAt(0) - '0', each.charAt(1), "t", new byte[0], 0, null));
        }
        return messages;
    }

    private record Log(List<String> seen) implements Redelivery.Outcome {
        @Override
        public void repeatedAcknowledged(List<Message> known) {
            known.forEach(each -> add("old", each));
        }

        @Override
        public void repeatedInHand(Message known, Message incoming) {
            add("hand", incoming);
        }

        @Override
        public void fresh(Message message) {
            add("new", message);
        }

        private void add(String verdict, Message message) {
            seen.add(verdict + message.packetId + (char) message.hash);
        }
    }
}
