package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.reader.Message;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Messages of a connection that ends, decoded while those of the next one come in another event loop. */
@Timeout(60)
class MessageDecoderTest {
    private static final int ROUNDS = 300_000;

    private final SourceSettings settings = new SourceSettings(Login.anonymous("tcp://127.0.0.1:1"), "reader", "in/#", 65535,
            1 << 20, null, -1, true, Duration.ofSeconds(20));
    private final MessageDecoder decoder = new MessageDecoder(settings, hash -> null);

    /** Returns the number of messages that were taken for those of another topic. */
    private int confused(String topic, boolean ofCoordinator) {
        MqttPublishMessage packet = Packets.publish(topic, "k", "job", "r/0/0/1");
        int hash = new MessageDecoder(settings, each -> null).decode(packet).hash;
        int confused = 0;
        for (int i = 0; i < ROUNDS; i++) {
            Message message = decoder.decode(packet);
            boolean right = message.hash == hash && message.topic.equals(topic) && message.marker != null == ofCoordinator;
            confused += right ? 0 : 1;
        }
        return confused;
    }

    @Test
    void messagesOfTwoConnectionsAreNotConfused() {
        CompletableFuture<Integer> former = CompletableFuture.supplyAsync(() -> confused("speck/drain/reader", true));
        assertEquals(0, confused("in/a", false));
        assertEquals(0, former.join());
    }
}
