package io.speck.mqtt.net;

import io.netty.handler.codec.mqtt.MqttPublishMessage;

/** The events of a connection, reported by its event loop thread in the order of arrival. */
public interface ConnectionListener {
    /** The broker has accepted the client; no other event comes earlier. */
    default void opened(Connection connection) {}

    /** A message has arrived; the caller releases it. */
    default void published(Connection connection, MqttPublishMessage message) {}

    default void acknowledged(Connection connection, int packetId, int reason) {}

    /** The broker has handled all packets written before this ping. */
    default void answered(Connection connection) {}

    /** An open connection has ended, other than by its own closing. */
    default void lost(Connection connection, String reason) {}
}
