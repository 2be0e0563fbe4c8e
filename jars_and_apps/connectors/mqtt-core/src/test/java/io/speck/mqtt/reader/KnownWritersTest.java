package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Message;
import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.Topic;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Believes the stamps of the writers that a coordinator named, against a real Mosquitto. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class KnownWritersTest extends ReaderCase {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private SourceSettings settings(String topic) {
        return settings(topic, 1);
    }

    private MqttSource open(long committed, long end) throws Exception {
        MqttSource source = new MqttSource(settings("in/#"), journal);
        source.open(committed, end);
        return source;
    }

    private void send(String job, int index, String payload) throws Exception {
        Topic.publishStamped(broker.url(), "in/a", job, "r/0/0/" + index, payload);
    }

    private void name(String... writers) throws Exception {
        Topic.retain(broker.url(), "speck/writers/reader", "{\"writers\": ["
                + String.join(", ", List.of(writers).stream().map(each -> "\"" + each + "\"").toList()) + "]}");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void allStampsAreBelievedWithoutAList() throws Exception {
        try (MqttSource source = open(0, 0)) {
            send("anyone", 0, "a");
            send("anyone", 0, "a");
            send("anyone", 1, "b");
            assertEquals(List.of("a", "b"), Batch.next(source, 0, 2));
        }
    }

    @Test
    void aListIsInForceAtOnceAndAfterARestart() throws Exception {
        name("job");
        try (MqttSource source = open(0, 0)) {
            send("job", 0, "a");
            send("device", 1, "forged");
            send("job", 0, "a");
            send("device", 1, "forged");
            assertEquals(List.of("a", "forged", "forged"), Batch.next(source, 0, 3));
            assertNull(source.messages(1, 2).get(0).stamp());
            assertEquals(2, source.metrics().badStamps());
            assertEquals(1, source.metrics().duplicatesDropped());
            source.commit(3);
            name("job", "second");
            send("second", 0, "b");
            send("second", 0, "b");
            send("device", 2, "c");
            assertEquals(List.of("b", "c"), Batch.next(source, 3, 5));
            source.commit(5);
        }
        try (MqttSource again = open(5, 5)) {
            send("second", 0, "b");
            send("device", 2, "c");
            assertEquals(List.of("c"), Batch.next(again, 5, 6));
            name();
            send("job", 7, "d");
            send("job", 7, "d");
            assertEquals(List.of("d", "d"), Batch.next(again, 6, 8));
            Topic.retain(broker.url(), "speck/writers/reader", "");
            send("device", 9, "e");
            send("device", 9, "e");
            send("device", 10, "f");
            assertEquals(List.of("e", "f"), Batch.next(again, 8, 10));
        }
    }

    @Test
    void aListThatWaitsInTheSessionIsInForceForTheMessagesAfterIt() throws Exception {
        Connection coordinator = Connection.open(Login.anonymous(broker.url()), Session.persistent("reader", 1),
                new ConnectionListener() {}, PATIENCE);
        coordinator.subscribe(List.of("in/#", "speck/writers/reader"), PATIENCE);
        coordinator.close();
        name("job");
        send("device", 0, "forged");
        send("job", 0, "a");
        try (MqttSource source = open(0, 0)) {
            assertEquals(List.of("forged", "a"), Batch.next(source, 0, 2));
            assertNull(source.messages(0, 1).get(0).stamp());
        }
    }

    @Test
    void aListThatNoRecordHoldsIsReadWhenTheReaderOpens() throws Exception {
        try (MqttSource source = open(0, 0)) {
            send("job", 0, "a");
            Batch.next(source, 0, 1);
            source.commit(1);
            name("job");
            send("device", 0, "b");
            Batch.await(source, 2);
            assertNull(source.messages(1, 2).get(0).stamp());
        }
        try (MqttSource again = open(1, 1)) {
            assertEquals(List.of("b"), Batch.next(again, 1, 2));
            assertNull(again.messages(1, 2).get(0).stamp());
        }
        journal.records.clear();
        try (MqttSource without = open(0, 0)) {
            send("device", 1, "c");
            Batch.await(without, 2);
            without.messages(0, 2).forEach(each -> assertNull(each.stamp()));
        }
    }

    @Test
    void aRepeatedBatchBelievesWhatItBelievedBefore() throws Exception {
        name("job");
        MqttSource first = open(0, 0);
        send("job", 0, "a");
        send("device", 0, "b");
        Batch.next(first, 0, 2);
        first.close();
        name("device");
        try (MqttSource second = open(0, 2)) {
            second.awaitWhole();
            assertEquals(List.of("a", "b"), Topic.texts(second.messages(0, 2)));
            assertEquals("job", second.messages(0, 2).get(0).stamp().job());
            assertNull(second.messages(0, 2).get(1).stamp());
            second.commit(2);
            send("device", 0, "c");
            send("device", 0, "c");
            send("job", 0, "a");
            assertEquals(List.of("c", "a"), Batch.next(second, 2, 4));
        }
    }

    /** Its messages that wait were published before the list without it, and outputs may be named after them already. */
    @Test
    void aWriterThatIsRemovedIsBelievedAfterARestartUntilTheListWithoutIt() throws Exception {
        name("job");
        try (MqttSource first = open(0, 0)) {
            send("job", 0, "a");
            send("job", 1, "b");
            name();
            send("job", 2, "c");
            Batch.await(first, 3);
            assertEquals(List.of("a"), Batch.next(first, 0, 1));
            assertBelieved(first.messages(1, 3));
            first.commit(1);
        }
        try (MqttSource second = open(1, 1)) {
            assertEquals(List.of("b", "c"), Batch.next(second, 1, 3));
            assertBelieved(second.messages(1, 3));
            second.commit(3);
        }
        try (MqttSource third = open(3, 3)) {
            send("job", 3, "d");
            assertEquals(List.of("d"), Batch.next(third, 3, 4));
            assertNull(third.messages(3, 4).get(0).stamp());
        }
    }

    private static void assertBelieved(List<Message> messages) {
        assertEquals("job", messages.get(0).stamp().job());
        assertNull(messages.get(1).stamp());
    }

    @Test
    void listsAreAcknowledgedAndNeverReturned() throws Exception {
        try (MqttSource source = new MqttSource(settings("#"), journal)) {
            source.open(0, 0);
            Topic.publish(broker.url(), "in/a", List.of("1"));
            name("job");
            Topic.retain(broker.url(), "speck/writers/other", "{\"writers\": [\"x\"]}");
            Topic.publish(broker.url(), "in/a", List.of("2"));
            send("job", 0, "a");
            send("job", 0, "a");
            send("x", 0, "b");
            send("x", 0, "b");
            Topic.publish(broker.url(), "in/a", List.of("end"));
            assertEquals(List.of("1", "2", "a", "b", "b", "end"), untilEnd(source));
            source.commit(source.metrics().received());
        }
        try (MqttSource next = new MqttSource(settings("#"), new MemoryJournal())) {
            next.open(0, 0);
            Topic.publish(broker.url(), "in/a", List.of("end"));
            assertEquals(List.of("end"), untilEnd(next));
        }
    }

    @Test
    void aLostSessionKeepsTheList() throws Exception {
        Topic.retain(broker.url(), "speck/session/reader", "{\"topics\": [\"in/#\"]}");
        name("job");
        try (MqttSource source = open(0, 0)) {
            send("job", 0, "a");
            Batch.next(source, 0, 1);
            source.commit(1);
        }
        Topic.retain(broker.url(), "speck/session/reader", "{\"topics\": [\"in/#\"]}"); // it was not deleted
        Topic.retain(broker.url(), "speck/writers/reader", "");
        Topic.forget(broker.url(), "reader");
        SourceSettings lenient = new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, 32 << 20,
                "speck/fence/reader", 1, false, PATIENCE);
        try (MqttSource source = new MqttSource(lenient, journal)) {
            source.open(1, 1);
            send("device", 0, "b");
            send("device", 0, "b");
            assertEquals(List.of("b", "b"), Batch.next(source, 1, 3));
        }
    }

    /** Returns the contents up to "end" without those of fences and marks. */
    private static List<String> untilEnd(MqttSource source) {
        Await.until("the end",
                () -> Topic.texts(source.messages(0, source.await(Long.MAX_VALUE, 1_000_000))).contains("end"));
        return source.messages(0, Long.MAX_VALUE).stream().filter(each -> !each.topic().startsWith("speck/fence/")
                && !each.topic().startsWith("speck/sink/")).map(each -> new String(each.payload(), StandardCharsets.UTF_8))
                .toList();
    }

    private static KnownWriters updated(String list, SourceSettings settings) {
        return KnownWriters.all().updated(bytes(list), settings);
    }

    @ParameterizedTest
    @ValueSource(strings = {"x", "{}", "{\"writers\": \"job\"}", "{\"writers\": [1]}", "{\"writers\": [\"a b\"]}",
        "{\"writers\": [\"a\",]}", "{\"writers\": [\"a\"", "{\"writers\": [\"\"]}"})
    void otherContentLeavesTheFormerList(String list) {
        KnownWriters former = updated("{\"writers\":[\"job\"]}", settings("in/#"));
        assertSame(former, former.updated(bytes(list), settings("in/#")));
    }

    @Test
    void listsAreParsed() {
        Stamp stamp = new Stamp("a.b-c_1", "r", 0, 0, 0);
        assertTrue(updated("{\"writers\": [\"x\" , \"a.b-c_1\"], \"owner\": \"o\"}", settings("in/#")).believes(stamp));
        assertFalse(updated("{\"writers\": [ ]}", settings("in/#")).believes(stamp));
        String many = "{\"writers\": [" + "\"x\", ".repeat(100_000) + "\"a.b-c_1\"]}";
        assertTrue(updated(many, settings("in/#")).believes(stamp));
    }
}
