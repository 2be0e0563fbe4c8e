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
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.function.IntFunction;

/** Decodes PUBLISH packets to messages; used by the thread of one connection. */
final class MessageDecoder {
    private final SourceSettings settings;
    private final IntFunction<String> names;
    private String lastTopic = "";
    private byte[] lastTopicBytes = new byte[0];
    private boolean lastIsOfCoordinator;

    /** @param names the names of jobs by the hashes that stand for them; null for an unknown one */
    MessageDecoder(SourceSettings settings, IntFunction<String> names) {
        this.settings = settings;
        this.names = names;
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
        CompactForm.Read compact = job != null || sequence != null ? null : compact(packet);
        String mark = job;
        if (compact != null) {
            mark = compact.mark();
            job = names.apply(compact.job());
            sequence = compact.sequence();
        }
        int id = packet.fixedHeader().qosLevel().value() == 0 ? 0 : packet.variableHeader().packetId();
        Message message = new Message(id, Message.hash(lastTopicBytes, payload, mark, sequence), lastTopic, payload,
                System.currentTimeMillis(), Stamp.parse(job, sequence));
        if (compact != null && message.stamp != null) {
            message.contentHash = Message.hash(lastTopicBytes, payload, job, sequence);
        }
        message.key = key;
        message.badStamp = message.stamp == null && (job != null || sequence != null);
        message.textBytes = bytes(key) + (sharesTopic ? 0 : bytes(topic))
                + (message.stamp == null ? 0 : bytes(job) + bytes(sequence));
        message.marker = lastIsOfCoordinator ? payload : null;
        return message;
    }

    /** Returns the stamp in the correlation data; null without one, as in the messages of a device that uses that. */
    private static CompactForm.Read compact(MqttPublishMessage packet) {
        MqttProperty<?> found = packet.variableHeader().properties().getProperty(MqttProperties.CORRELATION_DATA);
        return found == null ? null : CompactForm.decode((byte[]) found.value());
    }

    /** The memory of a text, which may need two bytes for each character. */
    private static int bytes(String text) {
        return text == null ? 0 : 2 * text.length();
    }
}
