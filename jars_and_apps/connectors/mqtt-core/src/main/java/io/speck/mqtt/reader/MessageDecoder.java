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

/** Decodes PUBLISH packets to messages; thread-safe, since one connection may end while the next one begins. */
final class MessageDecoder {
    private final SourceSettings settings;
    private final IntFunction<String> names;
    private volatile Topic last = new Topic("", new byte[0], false);

    private record Topic(String name, byte[] bytes, boolean ofCoordinator) {}

    /** @param names the names of jobs by the hashes that stand for them; null for an unknown one */
    MessageDecoder(SourceSettings settings, IntFunction<String> names) {
        this.settings = settings;
        this.names = names;
    }

    Message decode(MqttPublishMessage packet) {
        String name = packet.variableHeader().topicName();
        Topic topic = last;
        boolean sharesTopic = name.equals(topic.name);
        if (!sharesTopic) {
            topic = topic(name);
            last = topic;
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
        Message message = new Message(id, Message.hash(topic.bytes, payload, mark, sequence), topic.name, payload,
                System.currentTimeMillis(), Stamp.parse(job, sequence));
        if (compact != null && message.stamp != null) {
            message.contentHash = Message.hash(topic.bytes, payload, job, sequence);
        }
        message.key = key;
        message.badStamp = message.stamp == null && (job != null || sequence != null);
        message.textBytes = bytes(key) + (sharesTopic ? 0 : bytes(name))
                + (message.stamp == null ? 0 : bytes(job) + bytes(sequence));
        message.marker = topic.ofCoordinator ? payload : null;
        return message;
    }

    private Topic topic(String name) {
        boolean ofCoordinator = Drain.isMarker(name) || KnownWriters.isList(name) || Control.isForeign(name, settings)
                || OwnTopics.isMatchedByChance(name, settings);
        return new Topic(name, name.getBytes(StandardCharsets.UTF_8), ofCoordinator);
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
