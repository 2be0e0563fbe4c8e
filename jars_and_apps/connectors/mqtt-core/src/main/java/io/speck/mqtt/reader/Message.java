package io.speck.mqtt.reader;

import io.netty.buffer.ByteBufUtil;
import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32C;

/** A received message; (packet id, hash of its content) identifies it towards the broker. */
public final class Message {
    /** Approximate memory of a message beside its payload and its texts: objects and references. */
    static final int OVERHEAD_BYTES = 160;

    int packetId;
    final int hash;
    final long receivedMillis;
    /** The identity that its writer gave it; null for none. */
    Stamp stamp;
    /** True if it has the properties of a stamp, but they are not one. */
    boolean badStamp;
    /** False if its stamp is not believed; it has none then, also when it is redelivered. */
    boolean believed = true;
    /** True if another message has its stamp, so that nothing may be named after it. */
    boolean collides;
    /** Memory of its own copies of topic, key and stamp. */
    int textBytes;
    /** The key that the writer gave the message; null for none. */
    String key;
    /** Null, like the payload, while the message is awaited from the broker after a restart. */
    String topic;
    byte[] payload;

    /** The number of messages before this one; a dropped duplicate has the offset of the next message. */
    long offset;
    boolean duplicate;
    /** The content of a coordinator's message, which the engine does not get; null for all other messages. */
    byte[] marker;
    /** The connection on which its acknowledgement is valid; 0 for none. */
    int connection;
    boolean acknowledged;
    /** True if it was awaited in vain: it counts as not received, and its redelivery as new. */
    boolean givenUp;
    /** True once the engine has taken it: only its identity is still needed. */
    private boolean taken;

    Message(int packetId, int hash, String topic, byte[] payload, long receivedMillis, Stamp stamp) {
        this.packetId = packetId;
        this.hash = hash;
        this.topic = topic;
        this.payload = payload;
        this.receivedMillis = receivedMillis;
        this.stamp = stamp;
    }

    static int hash(byte[] topic, byte[] payload, String job, String sequence) {
        CRC32C crc = new CRC32C();
        crc.update(topic);
        crc.update(0);
        crc.update(payload);
        if (job != null) {
            crc.update(0);
            crc.update(job.getBytes(StandardCharsets.UTF_8));
        }
        if (sequence != null) {
            crc.update(0);
            crc.update(sequence.getBytes(StandardCharsets.UTF_8));
        }
        return (int) crc.getValue();
    }

    public String topic() {
        return topic;
    }

    /** Its identity, given by the job that wrote it; null if it has none of its own. */
    public Stamp stamp() {
        return collides ? null : stamp;
    }

    public String key() {
        return key;
    }

    public byte[] payload() {
        return payload;
    }

    /** The time of its first receipt, in milliseconds since 1970. */
    public long receivedMillis() {
        return receivedMillis;
    }

    public long offset() {
        return offset;
    }

    /** Hash of its content: topic, payload, and the properties of a stamp. */
    public int hash() {
        return hash;
    }

    /** Creates a message from its record, without its content. */
    static Message awaited(int packetId, int hash, long receivedMillis, boolean duplicate, boolean believed) {
        Message message = new Message(packetId, hash, null, null, receivedMillis, null);
        message.duplicate = duplicate;
        message.believed = believed;
        return message;
    }

    boolean missing() {
        return payload == null && !taken;
    }

    /** Returns the content, and releases it. */
    Received take() {
        Received received = new Received(topic, payload, key, receivedMillis, stamp(), offset, hash);
        taken = true;
        release();
        return received;
    }

    /** Takes the content of its redelivery. */
    void fill(Message incoming) {
        topic = incoming.topic;
        payload = incoming.payload;
        key = incoming.key;
        stamp = believed ? incoming.stamp : null;
        textBytes = incoming.textBytes;
    }

    /** Makes it a message without a stamp. */
    void disbelieve() {
        believed = false;
        stamp = null;
    }

    /** Releases the content; the identity remains, and the topic of a marker, which tells the session that it is for. */
    void release() {
        topic = marker == null ? null : topic;
        payload = null;
        key = null;
        textBytes = 0;
    }

    /** Takes the packet id of the same message as its writer sent it again, after the broker had lost it. */
    void adoptPacketId(Message other) {
        packetId = other.packetId;
        connection = other.connection;
    }

    boolean same(Message other) {
        return packetId == other.packetId && hash == other.hash;
    }

    /** The size of topic and payload on the wire, in bytes; of a message with its content. */
    int contentBytes() {
        return ByteBufUtil.utf8Bytes(topic) + payload.length;
    }

    /** Its memory. */
    int bytes() {
        return OVERHEAD_BYTES + textBytes + (payload == null ? 0 : payload.length);
    }
}
