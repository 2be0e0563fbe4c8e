package io.speck.kafka;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Losses;
import io.speck.kafka.KafkaBatchRecord.Run;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** A batch that is read again over a slow link, by Kafka's {@code MockConsumer}. */
class OpeningTest {
    private static final TopicPartition PARTITION = new TopicPartition("in", 0);
    private static final int MESSAGES = 8;
    private static final SourceSettings SETTINGS = new SourceSettings(Login.anonymous("kafka://k:9092"), "s", "in", 100,
            1 << 20, null, 0, false, Duration.ofMillis(400));

    private static List<Opening.Again> readAgain(int arriving) throws InterruptedException {
        TopicWatch watch = new TopicWatch(SETTINGS, () -> CompletableFuture.completedFuture(new TopicWatch.Topic("id", 1)),
                () -> { });
        KafkaBatchRecord batch = new KafkaBatchRecord("s", "kafka://k:9092", "in", "id", 0, MESSAGES, 1,
                Place.at(Map.of()), Place.at(Map.of()), List.of(new Run(0, Epochs.UNKNOWN, 0, MESSAGES, 0)),
                new SeenStamps(SeenStamps.RECORDED_HASHES), KnownWriters.all());
        try (Opening opening = new Opening(SETTINGS, new Control(SETTINGS), new Slow(arriving), watch)) {
            opening.connect();
            return opening.readAgain(batch, new Losses(SETTINGS));
        }
    }

    @Test
    void aBatchMayTakeLongerThanTheTimeForAnAnswer() throws InterruptedException {
        List<Opening.Again> found = readAgain(MESSAGES);
        assertEquals(MESSAGES, found.stream().filter(each -> !each.lost()).count());
    }

    @Test
    void aBrokerThatSendsNoMoreEndsTheReader() {
        String fault = assertThrows(BrokerException.class, () -> readAgain(3)).getMessage();
        assertTrue(fault.startsWith("broker kafka://k:9092 sent nothing of what the reader needs to begin for"), fault);
    }

    /** Sends a message every tenth of a second. */
    private static final class Slow extends MockConsumer<byte[], byte[]> {
        private final int arriving;

        Slow(int arriving) {
            super("none");
            this.arriving = arriving;
            updateBeginningOffsets(Map.of(PARTITION, 0L));
            updateEndOffsets(Map.of(PARTITION, (long) MESSAGES));
        }

        @Override
        public synchronized ConsumerRecords<byte[], byte[]> poll(Duration time) {
            try {
                Thread.sleep(time.toMillis());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            long next = position(PARTITION);
            if (next < arriving) {
                addRecord(new ConsumerRecord<>("in", 0, next, null, ("m" + next).getBytes(UTF_8)));
            }
            return super.poll(time);
        }
    }
}
