package io.speck.connector.reader;

import io.speck.mqtt.Received;
import io.speck.mqtt.Utf8;
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32C;

/**
 * A received message; with MQTT, (packet id, hash of its content) identifies it towards the broker.
 *
 * <p>Its fields are those of the readers alone, which guard them by their locks.
 */
public class Message {
    /** Approximate memory of a message beside its payload and its texts: objects and references. */
    public static final int OVERHEAD_BYTES = 160;

    public int packetId;
    public final int hash;
    /** The same whatever form its stamp came in: the hash of topic, payload, and the texts of its stamp. */
    public int contentHash;
    public final long receivedMillis;
    /** The identity that its writer gave it; null for none. */
    public Stamp stamp;
    /** True if it has the properties of a stamp, but they are not one. */
    public boolean badStamp;
    /** False if its stamp is not believed; it has none then, also when it is redelivered. */
    public boolean believed = true;
    /** True if another message has its stamp, so that nothing may be named after it. */
    public boolean collides;
    /** Memory of its own copies of topic, key and stamp. */
    public int textBytes;
    /** The key that the writer gave the message; null for none. */
    public String key;
    /** Null, like the payload, while the message is awaited from the broker after a restart. */
    public String topic;
    public byte[] payload;

    /** The number of messages before this one; a dropped duplicate has the offset of the next message. */
    public long offset;
    public boolean duplicate;
    /** The content of a coordinator's message, which the engine does not get; null for all other messages. */
    public byte[] marker;
    /** The connection on which its acknowledgement is valid; 0 for none. */
    public int connection;
    public boolean acknowledged;
    /** True if it was awaited in vain: it counts as not received, and its redelivery as new. */
    public boolean givenUp;
    /** True once the engine has taken it: only its identity is still needed. */
    private boolean taken;

    public Message(int packetId, int hash, String topic, byte[] payload, long receivedMillis, Stamp stamp) {
        this.packetId = packetId;
        this.hash = hash;
        this.contentHash = hash;
        this.topic = topic;
        this.payload = payload;
        this.receivedMillis = receivedMillis;
        this.stamp = stamp;
    }

    public static int hash(byte[] topic, byte[] payload, String job, String sequence) {
        return hash(topic, payload, job == null ? null : job.getBytes(StandardCharsets.UTF_8),
                sequence == null ? null : sequence.getBytes(StandardCharsets.UTF_8));
    }

    /** The same; job and sequence are in UTF-8. */
    public static int hash(byte[] topic, byte[] payload, byte[] job, byte[] sequence) {
        CRC32C crc = new CRC32C();
        crc.update(topic);
        crc.update(0);
        crc.update(payload);
        if (job != null) {
            crc.update(0);
            crc.update(job);
        }
        if (sequence != null) {
            crc.update(0);
            crc.update(sequence);
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
    public static Message awaited(int packetId, int hash, long receivedMillis, boolean duplicate, boolean believed) {
        Message message = new Message(packetId, hash, null, null, receivedMillis, null);
        message.duplicate = duplicate;
        message.believed = believed;
        return message;
    }

    public boolean missing() {
        return payload == null && !taken;
    }

    /** Returns the content, and releases it. */
    public Received take() {
        Received received = new Received(topic, payload, key, receivedMillis, stamp(), offset, hash);
        taken = true;
        release();
        return received;
    }

    /** Takes the content of its redelivery. */
    public void fill(Message incoming) {
        topic = incoming.topic;
        payload = incoming.payload;
        key = incoming.key;
        stamp = believed ? incoming.stamp : null;
        contentHash = incoming.contentHash;
        textBytes = incoming.textBytes;
    }

    /** Makes it a message without a stamp. */
    public void disbelieve() {
        believed = false;
        stamp = null;
    }

    /** Releases the content; the identity remains, and the topic of a marker, which tells the session that it is for. */
    public void release() {
        topic = marker == null ? null : topic;
        payload = null;
        key = null;
        textBytes = 0;
    }

    /** Takes the packet id of the same message as its writer sent it again, after the broker had lost it. */
    public void adoptPacketId(Message other) {
        packetId = other.packetId;
        connection = other.connection;
    }

    public boolean same(Message other) {
        return packetId == other.packetId && hash == other.hash;
    }

    /** Its hash with its stamp in the binary form; of a message with content and stamp. */
    int compactHash() {
        String mark = CompactForm.mark(CompactForm.hash(stamp.job()));
        return hash(topic.getBytes(StandardCharsets.UTF_8), payload, mark, stamp.sequence());
    }

    /** The size of topic and payload on the wire, in bytes; of a message with its content. */
    public int contentBytes() {
        return Utf8.length(topic) + payload.length;
    }

    /** Its memory. */
    public int bytes() {
        return OVERHEAD_BYTES + textBytes + (payload == null ? 0 : payload.length);
    }
}
