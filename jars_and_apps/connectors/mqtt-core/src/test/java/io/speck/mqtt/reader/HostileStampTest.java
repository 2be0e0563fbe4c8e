package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Message;
import io.speck.connector.reader.ReceiveBuffer;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.Topic;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Reads messages whose publisher put anything into the properties of a stamp. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class HostileStampTest extends ReaderCase {
    private static final String EMOJI = "\ud83d\ude00".repeat(11_000);
    private static final long BUFFER_BYTES = 1 << 20;

    private MqttSource open(long offset) throws Exception {
        MqttSource source = new MqttSource(settings(), journal);
        source.open(offset, offset);
        return source;
    }

    private SourceSettings settings() {
        return new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535, BUFFER_BYTES, null, -1, true,
                Duration.ofSeconds(20));
    }

    private void publish(String text, String key, String job, String sequence) throws Exception {
        Topic.publish(broker.url(), "in/a", key, job, sequence, text);
    }

    @Test
    void aMessageWithAStampOutOfBoundsIsReadWithoutOne() throws Exception {
        try (MqttSource source = open(0)) {
            publish("a", null, EMOJI, "r/0/0/0");
            publish("b", null, "job", EMOJI);
            publish("c", null, EMOJI, "r/0/0/0");
            publish("d", null, "job", "r/0/0/0.0~" + "0".repeat(200));
            publish("e", null, "job", "r/0/0/0.0~0000000G");
            Batch.await(source, 5);
            for (Message message : source.messages(0, 5)) {
                assertNull(message.stamp());
            }
            assertEquals(5, source.metrics().badStamps());
            source.close(0, 5, 1);
            source.commit(5);
        }
        try (MqttSource again = open(5)) {
            publish("f", null, "job", "r/0/0/0");
            Batch.await(again, 6);
            assertEquals("r/0/0/0", again.messages(5, 6).get(0).stamp().sequence());
            assertEquals(0, again.metrics().badStamps());
        }
    }

    @Test
    void keysCountAsMemory() throws Exception {
        try (MqttSource source = open(0)) {
            for (int i = 0; i < 400; i++) {
                publish("", "k".repeat(60_000), "job", "r/0/0/" + i);
            }
            Batch.await(source, 1);
            assertTrue(source.await(400, TimeUnit.SECONDS.toNanos(1)) < 400, "reading pauses");
            for (long start = 0; start < 400; ) {
                long end = source.await(start + 1, TimeUnit.SECONDS.toNanos(1));
                source.commit(end);
                start = end;
            }
        }
    }

    @Test
    void textsOfEveryKindCountAsMemory() {
        Message bare = new Message(1, 0, "in/a", new byte[0], 0, null);
        MessageDecoder decoder = new MessageDecoder(settings(), hash -> null);
        Message first = decoder.decode(Packets.publish("in/a", "k".repeat(1000), "j".repeat(100), "r/0/0/0"));
        Message second = decoder.decode(Packets.publish("in/a", "k".repeat(1000), "j".repeat(100), "r/0/0/0"));
        assertTrue(second.bytes() >= bare.bytes() + 1107, "key, job and sequence");
        assertTrue(first.bytes() > second.bytes(), "a topic that no message before has");
        ReceiveBuffer buffer = new ReceiveBuffer(true);
        buffer.add(first, false);
        buffer.add(second, false);
        assertEquals(first.bytes() + second.bytes(), buffer.bytes());
        assertEquals(List.of(0L, 1L), buffer.take(2, 2).stream().map(each -> each.offset()).toList());
        assertEquals(2L * bare.bytes(), buffer.bytes());
        buffer.removeUntil(2);
        assertEquals(0, buffer.bytes());
    }
}
