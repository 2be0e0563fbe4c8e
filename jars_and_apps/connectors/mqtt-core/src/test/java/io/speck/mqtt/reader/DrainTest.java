package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.connector.reader.Message;
import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.Topic;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Answers drain markers, against a real Mosquitto. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class DrainTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    @TempDir
    Path folder;

    private static SourceSettings settings(String url, long attempt) {
        return new SourceSettings(Login.anonymous(url), "reader", "in/#", 65535, 32 << 20, "speck/fence/reader", attempt,
                true, Duration.ofSeconds(20));
    }

    private static List<String> texts(List<Message> messages) {
        return messages.stream().map(each -> new String(each.payload(), StandardCharsets.UTF_8)).toList();
    }

    @Test
    void idleReaderAnswersAtOnce() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder);
                Topic answers = new Topic(broker.url(), "speck/drained/reader");
                MqttSource source = new MqttSource(settings(broker.url(), 1), new MemoryJournal())) {
            source.open(0, 0);
            Topic.publish(broker.url(), "speck/drain/reader", List.of("first"));
            assertEquals(List.of("first"), answers.take(1));
            assertEquals(0, source.metrics().received());
        }
    }

    @Test
    void answerComesOnceAllMessagesBeforeTheMarkerAreCommitted() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder);
                Topic answers = new Topic(broker.url(), "speck/drained/reader");
                MqttSource source = new MqttSource(settings(broker.url(), 1), new MemoryJournal())) {
            source.open(0, 0);
            Topic.publish(broker.url(), "in/a", List.of("1", "2", "3"));
            Topic.publish(broker.url(), "speck/drain/reader", List.of("early"));
            Topic.publish(broker.url(), "in/a", List.of("4"));
            Await.until("four messages", () -> source.await(4, SECOND) == 4);
            assertEquals(List.of("1", "2", "3", "4"), texts(source.messages(0, 4)));
            source.close(0, 2, 1);
            source.commit(2);
            source.close(2, 3, 1);
            Topic.publish(broker.url(), "speck/drained/reader", List.of("not yet"));
            assertEquals(List.of("not yet"), answers.take(1));
            source.commit(3);
            assertEquals(List.of("not yet", "early"), answers.take(2));
        }
    }

    @Test
    void markerThatWaitedForAReaderIsAnsweredByTheNextOne() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder);
                Topic answers = new Topic(broker.url(), "speck/drained/reader")) {
            MemoryJournal journal = new MemoryJournal();
            MqttSource first = new MqttSource(settings(broker.url(), 1), journal);
            first.open(0, 0);
            first.close();
            Topic.publish(broker.url(), "in/a", List.of("1"));
            Topic.publish(broker.url(), "speck/drain/reader", List.of("while away"));
            try (MqttSource second = new MqttSource(settings(broker.url(), 2), journal)) {
                second.open(0, 0);
                Await.until("the message", () -> second.await(1, SECOND) == 1);
                assertEquals(List.of("1"), texts(second.messages(0, 1)));
                second.close(0, 1, 1);
                second.commit(1);
                assertEquals(List.of("while away"), answers.take(1));
            }
        }
    }
}
