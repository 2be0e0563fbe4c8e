package io.speck.mqtt.reader;

import io.netty.buffer.Unpooled;
import io.netty.handler.codec.mqtt.MqttMessageBuilders;
import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttProperties.UserProperty;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttQoS;
import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.Stamp;

/** Builds packets as a broker would send them. */
final class Packets {
    private Packets() {}

    static MqttPublishMessage publish(String topic, String key, String job, String sequence) {
        MqttProperties properties = new MqttProperties();
        properties.add(new UserProperty(Received.KEY, key));
        properties.add(new UserProperty(Stamp.JOB, job));
        properties.add(new UserProperty(Stamp.SEQUENCE, sequence));
        return MqttMessageBuilders.publish().topicName(topic).messageId(1).qos(MqttQoS.AT_LEAST_ONCE)
                .payload(Unpooled.EMPTY_BUFFER).properties(properties).build();
    }
}
