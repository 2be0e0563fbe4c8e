package io.speck.mqtt.reader;

import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32C;

/** One message as it was received; its identity towards the broker is (packet id, hash of its content). */
public final class Message {
    /** What a message costs in memory beside its payload, roughly: objects, references, topic. */
    static final int OVERHEAD_BYTES = 160;

    int packetId;
    final int hash;
    final long receivedMillis;
    final Stamp stamp;
    /** What the writer calls the message's key; null for none. */
    String key;
    /** Null, like the payload, for one that is awaited from the broker after a restart. */
    String topic;
    byte[] payload;

    /** The count of messages given out before this one; of a dropped duplicate, that of the next one. */
    long offset;
    boolean duplicate;
    /** The content of a marker, which is given to nobody; null of all others. */
    byte[] marker;
    /** The connection on which its acknowledgement is valid; 0 for none. */
    int connection;
    boolean acknowledged;
    /** It was given out for good: only its identity is still needed. */
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

    public byte[] payload() {
        return payload;
    }

    /** When it was received for the first time, in milliseconds since 1970. */
    public long receivedMillis() {
        return receivedMillis;
    }

    public long offset() {
        return offset;
    }

    /** One of which only the record is left. */
    static Message awaited(int packetId, int hash, long receivedMillis, boolean duplicate) {
        Message message = new Message(packetId, hash, null, null, receivedMillis, null);
        message.duplicate = duplicate;
        return message;
    }

    boolean missing() {
        return payload == null && !taken;
    }

    /** Lets the content go, once it is given out for good. */
    Received take() {
        Received received = new Received(topic, payload, key, receivedMillis);
        taken = true;
        topic = null;
        payload = null;
        key = null;
        return received;
    }

    /** The broker has lost it, and was sent it again: it comes under another packet id. */
    void comesAs(Message other) {
        packetId = other.packetId;
        connection = other.connection;
    }

    boolean same(Message other) {
        return packetId == other.packetId && hash == other.hash;
    }

    int bytes() {
        return OVERHEAD_BYTES + (payload == null ? 0 : payload.length);
    }
}
