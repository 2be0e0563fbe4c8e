package io.speck.mqtt.reader;

import io.netty.buffer.Unpooled;
import io.netty.handler.codec.mqtt.MqttMessageBuilders;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttQoS;
import io.speck.connector.reader.Message;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.net.Connection;
import java.util.List;

/**
 * Answers the drain markers of a coordinator, which waits until all messages of a session are processed.
 *
 * <p>The coordinator publishes a marker to a topic of the session's own, and the broker queues it behind all waiting
 * messages. The reader does not return the marker to the engine; once all messages before it are committed and
 * acknowledged, it acknowledges the marker too, and publishes its content to {@code speck/drained/<session>}. Neither
 * message is retained: a coordinator that still waits sends another marker.
 */
final class Drain {
    private static final String MARKERS = "speck/drain/";
    private static final String ANSWERS = "speck/drained/";

    private Drain() {}

    /** Returns the topic of the markers for a session. */
    static String topic(SourceSettings settings) {
        return MARKERS + settings.clientId();
    }

    /** True for the markers of any session, since a filter may match those of others. */
    static boolean isMarker(String topic) {
        return topic.startsWith(MARKERS);
    }

    /** Answers the markers among messages just acknowledged over this connection. */
    static void answer(List<Message> done, Connection connection, String session) {
        for (Message message : done) {
            if (message.marker != null && message.acknowledged && message.topic.equals(MARKERS + session)) {
                MqttPublishMessage answer = MqttMessageBuilders.publish()
                        .topicName(ANSWERS + session)
                        .qos(MqttQoS.AT_MOST_ONCE)
                        .payload(Unpooled.wrappedBuffer(message.marker)) // which the builder copies
                        .build();
                connection.execute(() -> connection.writeAndFlush(answer));
            }
        }
    }
}
