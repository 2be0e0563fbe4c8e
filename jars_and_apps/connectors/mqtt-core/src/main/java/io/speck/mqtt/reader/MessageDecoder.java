package io.speck.mqtt.reader;

import io.netty.buffer.ByteBufUtil;
import io.netty.handler.codec.mqtt.MqttProperties.MqttProperty;
import io.netty.handler.codec.mqtt.MqttProperties.StringPair;
import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Message;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;

/** Decodes PUBLISH packets to messages; used by the thread of one connection. */
final class MessageDecoder {
    private final SourceSettings settings;
    private String lastTopic = "";
    private byte[] lastTopicBytes = new byte[0];
    private boolean lastIsOfCoordinator;

    MessageDecoder(SourceSettings settings) {
        this.settings = settings;
    }

    Message decode(MqttPublishMessage packet) {
        String topic = packet.variableHeader().topicName();
        boolean sharesTopic = topic.equals(lastTopic);
        if (!sharesTopic) {
            lastTopic = topic;
            lastTopicBytes = topic.getBytes(StandardCharsets.UTF_8);
            lastIsOfCoordinator = Drain.isMarker(topic) || KnownWriters.isList(topic)
                    || Control.isForeign(topic, settings) || OwnTopics.isMatchedByChance(topic, settings);
        }
        byte[] payload = ByteBufUtil.getBytes(packet.payload());
        String job = null;
        String sequence = null;
        String key = null;
        for (MqttProperty<?> each : packet.variableHeader().properties()
                .getProperties(MqttProperties.USER_PROPERTY)) {
            StringPair pair = (StringPair) each.value();
            job = Stamp.JOB.equals(pair.key) ? pair.value : job;
            sequence = Stamp.SEQUENCE.equals(pair.key) ? pair.value : sequence;
            key = Received.KEY.equals(pair.key) ? pair.value : key;
        }
        int id = packet.fixedHeader().qosLevel().value() == 0 ? 0 : packet.variableHeader().packetId();
        Message message = new Message(id, Message.hash(lastTopicBytes, payload, job, sequence), lastTopic, payload,
                System.currentTimeMillis(), Stamp.parse(job, sequence));
        message.key = key;
        message.badStamp = message.stamp == null && (job != null || sequence != null);
        message.textBytes = bytes(key) + (sharesTopic ? 0 : bytes(topic))
                + (message.stamp == null ? 0 : bytes(job) + bytes(sequence));
        message.marker = lastIsOfCoordinator ? payload : null;
        return message;
    }

    /** The memory of a text, which may need two bytes for each character. */
    private static int bytes(String text) {
        return text == null ? 0 : 2 * text.length();
    }
}
