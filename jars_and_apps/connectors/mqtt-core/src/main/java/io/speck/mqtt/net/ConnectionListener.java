package io.speck.mqtt.net;

import io.netty.handler.codec.mqtt.MqttPublishMessage;

/** What a connection reports, always from its own event loop thread and in the order of the wire. */
public interface ConnectionListener {
    /** The broker accepted us; nothing else was reported before. */
    default void opened(Connection connection) {}

    /** A message came; it is released by the caller. */
    default void published(Connection connection, MqttPublishMessage message) {}

    default void acknowledged(Connection connection, int packetId, int reason) {}

    /** The broker has handled all that was written before this ping. */
    default void answered(Connection connection) {}

    /** An opened connection has ended, other than by our own wish. */
    default void lost(Connection connection, String reason) {}
}
