package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.connector.reader.Message;
import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.Topic;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Returns control messages among the others, against a real Mosquitto. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ControlTest extends ReaderCase {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final String CONTROL = "speck/control/reader";

    private static List<String> texts(List<Message> messages) {
        return messages.stream()
                .map(each -> each.topic() + " " + new String(each.payload(), StandardCharsets.UTF_8))
                .toList();
    }

    private void publish(String topic, String text) throws Exception {
        Topic.publish(broker.url(), topic, List.of(text));
    }

    @Test
    void aBatchThatIsRunAgainHasTheSameControlMessages() throws Exception {
        SourceSettings settings = settings("in/#", 1).controlledBy(CONTROL);
        List<String> expected = List.of("in/a 1", CONTROL + " busy", "in/a 2");
        try (MqttSource source = new MqttSource(settings, journal)) {
            source.open(0, 0);
            publish("in/a", "1");
            publish(CONTROL, "busy");
            publish("in/a", "2");
            Await.until("three messages", () -> source.await(3, SECOND) == 3);
            assertEquals(expected, texts(source.messages(0, 3)));
            source.close(0, 3, 1);
        }
        publish(CONTROL, "later");
        try (MqttSource again = new MqttSource(settings("in/#", 2).controlledBy(CONTROL), journal)) {
            again.open(0, 3);
            again.awaitWhole();
            assertEquals(expected, texts(again.messages(0, 3)));
            again.commit(3);
            Await.until("the next one", () -> again.await(4, SECOND) == 4);
            assertEquals(List.of(CONTROL + " later"), texts(again.messages(3, 4)));
        }
    }

    @Test
    void whatSpecKItselfWritesIsNoInputOfAFilterThatMatchesAll() throws Exception {
        try (MqttSource source = new MqttSource(settings("#", 1), journal)) {
            source.open(0, 0);
            for (String own : List.of("fence/x", "session/x", "sink/x", "again/x", "drained/x", "probe/x", "split/x/0")) {
                publish("speck/" + own, "own");
            }
            publish("speck/garden", "of a user");
            publish("in/a", "1");
            Await.until("two messages", () -> source.await(2, SECOND) == 2);
            assertEquals(List.of("speck/garden of a user", "in/a 1"), texts(source.messages(0, 2)));
        }
    }

    /** MQTT 5, 4.7.3: levels may be empty, and a topic has up to 65,535 bytes of UTF-8. */
    @Test
    void topicsOfAnyFormAreReadUnderTheNameThatWasWritten() throws Exception {
        List<String> topics = List.of("/", "/a", "a/", "a//b", "///", "Straße/ö €/\uD83D\uDE00", " a ", "speck", "x".repeat(65535));
        try (MqttSource source = new MqttSource(settings("#", 1), journal)) {
            source.open(0, 0);
            for (String topic : topics) {
                publish(topic, "1");
            }
            Await.until("all", () -> source.await(topics.size(), SECOND) == topics.size());
            assertEquals(topics, source.messages(0, topics.size()).stream().map(Message::topic).toList());
        }
        for (String topic : topics) {
            try (MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(broker.url()),
                    "odd-" + topics.indexOf(topic), topic, 65535, 32 << 20, null, -1, true, Duration.ofSeconds(20)),
                    new MemoryJournal())) {
                source.open(0, 0);
                publish(topic, "2");
                Await.until("one", () -> source.await(1, SECOND) == 1);
                assertEquals(topic, source.messages(0, 1).get(0).topic());
                source.commit(1);
            }
        }
    }

    @Test
    void aFilterOfSpecKsOwnTopicsGetsThem() throws Exception {
        try (MqttSource source = new MqttSource(settings("speck/split/x/+", 1), journal)) {
            source.open(0, 0);
            publish("speck/split/x/0", "frame");
            Await.until("a frame", () -> source.await(1, SECOND) == 1);
            assertEquals(List.of("speck/split/x/0 frame"), texts(source.messages(0, 1)));
        }
    }

    @Test
    void controlMessagesForAnotherAndForAFormerFormAreLeftOut() throws Exception {
        try (MqttSource former = new MqttSource(settings("+/+/other", 1).controlledBy(CONTROL), journal)) {
            former.open(0, 0);
        }
        publish(CONTROL, "for the former form");
        publish("speck/control/other", "for another");
        try (MqttSource source = new MqttSource(settings("+/+/other", 2), journal)) {
            source.open(0, 0);
            publish("in/a/other", "1");
            Await.until("a message", () -> source.await(1, SECOND) == 1);
            assertEquals(List.of("in/a/other 1"), texts(source.messages(0, 1)));
            source.close(0, 1, 1);
            source.commit(1);
        }
    }
}
