package io.speck.mqtt.reader;

import io.speck.mqtt.Await;
import io.speck.mqtt.Topic;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Reads batches as an engine does. */
final class Batch {
    private Batch() {}

    /** Waits for the messages up to an offset. */
    static void await(MqttSource source, long end) {
        Await.until("messages up to " + end, () -> source.await(end, TimeUnit.SECONDS.toNanos(1)) >= end);
    }

    /** Waits for the batch [start, end) and records it; returns its contents. */
    static List<String> next(MqttSource source, long start, long end) throws IOException {
        await(source, end);
        source.close(start, end, 1);
        return Topic.texts(source.messages(start, end));
    }
}
