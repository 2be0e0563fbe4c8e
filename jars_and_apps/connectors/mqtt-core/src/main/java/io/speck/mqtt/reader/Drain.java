package io.speck.mqtt.reader;

import io.netty.handler.codec.mqtt.MqttMessageBuilders;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttQoS;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.net.Connection;
import java.util.List;

/**
 * How a coordinator learns that all which waited in a session is done with.
 *
 * <p>It publishes a marker to a topic of the session's own, which the broker puts behind everything that waits. The
 * reader gives it to nobody; once all before it is committed and acknowledged, it is acknowledged too, and its content
 * is published to {@code speck/drained/<session>}. Neither is retained: whoever still waits asks again.
 */
final class Drain {
    private static final String MARKERS = "speck/drain/";
    private static final String ANSWERS = "speck/drained/";

    private Drain() {}

    /** What a reader subscribes to: its messages, and the markers where a coordinator is there to send them. */
    static List<String> filters(SourceSettings settings) {
        return settings.fenceTopic() == null
                ? List.of(settings.topic())
                : List.of(settings.topic(), MARKERS + settings.clientId());
    }

    /** Also of another session, for a filter that takes everything in. */
    static boolean isMarker(String topic) {
        return topic.startsWith(MARKERS);
    }

    /** Answers the markers among what was acknowledged over this connection just now. */
    static void answer(List<Message> done, Connection connection, String session) {
        for (Message message : done) {
            if (message.marker != null && message.acknowledged && message.topic.equals(MARKERS + session)) {
                MqttPublishMessage answer = MqttMessageBuilders.publish()
                        .topicName(ANSWERS + session)
                        .qos(MqttQoS.AT_MOST_ONCE)
                        .payload(connection.buffer(message.marker.length).writeBytes(message.marker))
                        .build();
                connection.execute(() -> connection.writeAndFlush(answer));
            }
        }
    }
}
