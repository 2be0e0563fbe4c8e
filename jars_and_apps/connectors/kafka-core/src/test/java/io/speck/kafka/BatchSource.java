package io.speck.kafka;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.connector.reader.BatchJournal;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.MockConsumer;

/** A reader of the topic "in" at a broker of the test, whose messages are taken in batches. */
abstract class BatchSource extends KafkaSource {
    private static final SourceSettings SETTINGS = new SourceSettings(Login.anonymous("kafka://k:9092"), "s", "in", 100,
            1 << 20, null, 0, false, Duration.ofSeconds(30));

    BatchSource(BatchJournal journal, boolean streaming) {
        super(SETTINGS, journal, streaming);
    }

    /** The topic as it is now. */
    abstract TopicWatch.Topic topic();

    /** A consumer that reads it. */
    abstract MockConsumer<byte[], byte[]> consumer();

    @Override
    Opening opening() {
        TopicWatch watch = new TopicWatch(SETTINGS, () -> CompletableFuture.completedFuture(topic()), () -> { });
        return new Opening(SETTINGS, new Control(SETTINGS), consumer(), watch);
    }

    /** Opens it, as after a restart with such a batch that was not committed. */
    void openWhole(long start, long end) throws IOException, InterruptedException {
        open(start, end);
        awaitWhole();
    }

    void awaitEnd(long end) throws InterruptedException {
        assertEquals(end, await(end, TimeUnit.SECONDS.toNanos(30)));
    }

    List<String> batch(long start, long end) throws IOException, InterruptedException {
        awaitEnd(end);
        close(start, end, 1);
        return texts(start, end);
    }

    List<String> texts(long start, long end) {
        return messages(start, end).stream().map(each -> new String(each.payload(), UTF_8)).toList();
    }
}
