package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;

/**
 * The form in which a message is sent over one connection.
 *
 * @param stamp the binary form of its stamp, which replaces the texts; null for the texts
 * @param alias the number that stands for its topic on this connection (MQTT 5, 3.3.2.3.4); 0 for none
 * @param hasTopic false if the broker knows the alias, so that the topic is left out
 */
record WireForm(byte[] stamp, int alias, boolean hasTopic) {
    static final WireForm TEXTS = new WireForm(null, 0, true);
    private static final int CORRELATION_DATA = 0x09;
    private static final int TOPIC_ALIAS = 0x23;
    private static final int ALIAS_BYTES = 3;
    private static final int DATA_HEADER = 3;
    /** The bytes by which a packet may be larger than in texts: the alias, and a byte more in each of its two lengths. */
    static final int MOST_MORE = ALIAS_BYTES + 2;

    /** The bytes of the properties that this form adds. */
    int properties() {
        return (alias == 0 ? 0 : ALIAS_BYTES) + (stamp == null ? 0 : DATA_HEADER + stamp.length);
    }

    void writeProperties(ByteBuf out) {
        if (alias != 0) {
            out.writeByte(TOPIC_ALIAS).writeShort(alias);
        }
        if (stamp != null) {
            out.writeByte(CORRELATION_DATA).writeShort(stamp.length).writeBytes(stamp);
        }
    }
}
