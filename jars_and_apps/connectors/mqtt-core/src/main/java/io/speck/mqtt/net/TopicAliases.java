package io.speck.mqtt.net;

import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttProperties.IntegerProperty;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttPublishVariableHeader;
import io.speck.mqtt.BrokerException;

/**
 * The topics for which a broker sends numbers on one connection, once it has sent both (MQTT 5, 3.3.2.3.4). Not
 * thread-safe; used by the event loop of the connection.
 */
public final class TopicAliases {
    /** The topic at which brokers retain their version. */
    public static final String BROKER_VERSION = "$SYS/broker/version";
    // Mosquitto replaces a topic when it sends. mochi 2.7 does when a message arrives, and sends that number again on
    // a later connection, where it stands for no topic or for another one.
    private static final String TRUSTED = "mosquitto version ";

    private final String[] topics;

    /**
     * True if a broker of this version sends no number of an earlier connection.
     *
     * @param version the text that the broker retains; null for none
     */
    public static boolean trusted(String version) {
        return version != null && version.startsWith(TRUSTED);
    }

    /** @param most the number of aliases that the client has permitted; 0 for none */
    TopicAliases(int most) {
        topics = new String[most];
    }

    /**
     * Returns the message with its topic; it shares the payload of the given one.
     *
     * @throws BrokerException for a number that is not permitted, or that stands for no topic yet
     */
    MqttPublishMessage resolved(MqttPublishMessage packet) {
        MqttPublishVariableHeader header = packet.variableHeader();
        if (!(header.properties().getProperty(MqttProperties.TOPIC_ALIAS) instanceof IntegerProperty found)) {
            return packet;
        }
        int alias = found.value();
        boolean permitted = alias > 0 && alias <= topics.length;
        if (permitted && !header.topicName().isEmpty()) {
            topics[alias - 1] = header.topicName();
            return packet;
        }
        if (!permitted || topics[alias - 1] == null) {
            throw new BrokerException("the broker sent topic alias " + alias + (permitted ? " before its topic"
                    : " (permitted: up to " + topics.length + ")"), false);
        }
        return new MqttPublishMessage(packet.fixedHeader(),
                new MqttPublishVariableHeader(topics[alias - 1], header.packetId(), header.properties()),
                packet.payload());
    }
}
