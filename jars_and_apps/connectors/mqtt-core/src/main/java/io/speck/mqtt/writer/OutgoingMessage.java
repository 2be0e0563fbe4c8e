package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.speck.connector.writer.RefusedMessage;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A message to publish at QoS 1, and its form on the wire (MQTT 5, 3.3). */
final class OutgoingMessage {
    private static final int PUBLISH_QOS_1 = 0x32;
    private static final int RETAIN = 0x01;
    private static final int USER_PROPERTY = 0x26;
    private static final byte[] JOB_NAME = Stamp.JOB.getBytes(StandardCharsets.UTF_8);
    private static final byte[] SEQUENCE_NAME = Stamp.SEQUENCE.getBytes(StandardCharsets.UTF_8);
    private static final byte[] KEY_NAME = Received.KEY.getBytes(StandardCharsets.UTF_8);

    final Delivery delivery;
    final String topic;
    private final byte[] topicBytes;
    private final byte[] payload;
    private final byte[] key;
    final byte[] job;
    private final byte[] sequence;
    private final UserProperty[] more;
    /** Sizes on the wire, in bytes; kept, since a message is measured when it is queued, sent, held and dropped. */
    private final int properties;
    private final int textsOfStamp;

    /** True if its readers accept repetitions that they cannot recognise; guarded by the publisher's lock once queued. */
    boolean mayRepeat;
    /** True once a broker has acknowledged it, even if the broker lost it since; guarded by the publisher's lock. */
    boolean acknowledged;
    /** Its number in the {@link RetransmissionBuffer}, 0 outside of it; the broker's live time at its acknowledgement. */
    long deliveryNumber;
    long acknowledgedNanos;
    /** True in the buffer while it is sent again, or before it is known if it must be. */
    boolean unconfirmed;
    /** True in the buffer if it is of another process. */
    boolean takenOver;
    /** When it was sent last; 0 before that. */
    long sentNanos;
    /** Its number among those that the broker is to retain, by which a newer one is known; 0 if it is not, -1 if unknown. */
    long retainNumber;
    /** When the broker first refused it as it was sent again ({@link RefusedForNow}); 0 if it did not. */
    long refusedNanos;
    /** True while it is sent again for a lost session: what the broker retains is not lost then. */
    boolean forSession;

    /** One user property. */
    record UserProperty(byte[] name, byte[] value) {}

    /**
     * @param key user property, as are job and sequence; null for none
     * @param more further user properties
     */
    OutgoingMessage(Delivery delivery, String topic, byte[] topicBytes, byte[] payload, byte[] key, byte[] job,
            byte[] sequence, UserProperty... more) {
        this.delivery = delivery;
        this.topic = topic;
        this.topicBytes = topicBytes;
        this.payload = payload;
        this.key = key;
        this.job = job;
        this.sequence = sequence;
        this.more = more;
        this.textsOfStamp = property(JOB_NAME, job) + property(SEQUENCE_NAME, sequence);
        int size = property(KEY_NAME, key) + textsOfStamp;
        for (UserProperty each : more) {
            size += property(each.name(), each.value());
        }
        this.properties = size;
    }

    /** Returns the message as one that the broker never accepts. */
    RefusedMessage refused(long maximumPacketBytes, String reason) {
        Map<String, String> properties = new LinkedHashMap<>();
        for (UserProperty each : more) {
            properties.put(new String(each.name(), StandardCharsets.UTF_8),
                    new String(each.value(), StandardCharsets.UTF_8));
        }
        long most = maximumPacketBytes < 0 ? -1 : Math.max(0, maximumPacketBytes - (bytes() - payload.length));
        return new RefusedMessage(topic, payload, key, properties, most, reason);
    }

    /** Returns the message as one that the broker has not taken. */
    UnsentMessage unsent() {
        return new UnsentMessage(topic, payload, key, sequence);
    }

    /** Names the message in errors: the job that wrote it, its topic, and its size on the wire. */
    String description() {
        return "a message" + (job == null ? "" : " of job '" + new String(job, StandardCharsets.UTF_8) + "'")
                + " to topic '" + topic + "' (" + bytes() + " bytes)";
    }

    boolean stamped() {
        return job != null && sequence != null;
    }

    /** Size on the wire, in bytes, with its stamp as texts and with its topic. */
    int bytes() {
        int remaining = remaining();
        return 1 + width(remaining) + remaining;
    }

    /** Its stamp; null if it has none. */
    Stamp stamp() {
        return stamped() ? Stamp.parse(new String(job, StandardCharsets.UTF_8),
                new String(sequence, StandardCharsets.UTF_8)) : null;
    }

    private int remaining() {
        return 2 + topicBytes.length + 2 + width(properties) + properties + payload.length;
    }

    private static int property(byte[] name, byte[] value) {
        return value == null ? 0 : 5 + name.length + value.length;
    }

    private static int width(int number) {
        return number < 1 << 7 ? 1 : number < 1 << 14 ? 2 : number < 1 << 21 ? 3 : 4;
    }

    /** @param retained true if the broker is to retain it */
    void encode(int packetId, boolean retained, ByteBuf out) {
        encode(packetId, retained, WireForm.TEXTS, out);
    }

    /** Writes it in a form that may be shorter. */
    void encode(int packetId, boolean retained, WireForm form, ByteBuf out) {
        byte[] stamp = form.stamp();
        int size = properties + form.properties() - (stamp == null ? 0 : textsOfStamp);
        int topicLength = form.hasTopic() ? topicBytes.length : 0;
        out.writeByte(retained ? PUBLISH_QOS_1 | RETAIN : PUBLISH_QOS_1);
        writeNumber(2 + topicLength + 2 + width(size) + size + payload.length, out);
        out.writeShort(topicLength).writeBytes(topicBytes, 0, topicLength);
        out.writeShort(packetId);
        writeNumber(size, out);
        form.writeProperties(out);
        writeProperty(KEY_NAME, key, out);
        writeProperty(JOB_NAME, stamp == null ? job : null, out);
        writeProperty(SEQUENCE_NAME, stamp == null ? sequence : null, out);
        for (UserProperty each : more) {
            writeProperty(each.name(), each.value(), out);
        }
        out.writeBytes(payload);
    }

    private static void writeProperty(byte[] name, byte[] value, ByteBuf out) {
        if (value != null) {
            out.writeByte(USER_PROPERTY);
            out.writeShort(name.length).writeBytes(name);
            out.writeShort(value.length).writeBytes(value);
        }
    }

    private static void writeNumber(int number, ByteBuf out) {
        int rest = number;
        while (rest >>> 7 != 0) {
            out.writeByte(rest & 0x7F | 0x80);
            rest >>>= 7;
        }
        out.writeByte(rest);
    }

    /** True if bytes of this length begin as the form on the wire that {@link #encode} writes. */
    static boolean isPacket(ByteBuf bytes, int start, int length) {
        if ((bytes.getByte(start) & ~RETAIN) != PUBLISH_QOS_1) {
            return false;
        }
        int remaining = 0;
        for (int i = 0; i < 4 && 1 + i < length; i++) { // MQTT 5, 1.5.5
            byte part = bytes.getByte(start + 1 + i);
            remaining |= (part & 0x7F) << 7 * i;
            if (part >= 0) {
                return remaining == length - 2 - i;
            }
        }
        return false;
    }

    /** Reads the form on the wire that {@link #encode} writes. */
    static OutgoingMessage decode(Delivery delivery, ByteBuf packet) {
        boolean retained = (packet.readByte() & RETAIN) != 0;
        readNumber(packet);
        byte[] topic = readString(packet);
        packet.skipBytes(Short.BYTES);
        ByteBuf properties = packet.readSlice(readNumber(packet));
        byte[] key = null;
        byte[] job = null;
        byte[] sequence = null;
        List<UserProperty> more = new ArrayList<>();
        while (properties.isReadable()) {
            properties.skipBytes(1);
            byte[] name = readString(properties);
            byte[] value = readString(properties);
            if (Arrays.equals(name, KEY_NAME)) {
                key = value;
            } else if (Arrays.equals(name, JOB_NAME)) {
                job = value;
            } else if (Arrays.equals(name, SEQUENCE_NAME)) {
                sequence = value;
            } else {
                more.add(new UserProperty(name, value));
            }
        }
        OutgoingMessage message = new OutgoingMessage(delivery, new String(topic, StandardCharsets.UTF_8), topic,
                ByteBufUtil.getBytes(packet), key, job, sequence, more.toArray(UserProperty[]::new));
        message.retainNumber = retained ? -1 : 0;
        message.sentNanos = 1; // by an earlier process
        return message;
    }

    private static byte[] readString(ByteBuf in) {
        byte[] bytes = new byte[in.readUnsignedShort()];
        in.readBytes(bytes);
        return bytes;
    }

    private static int readNumber(ByteBuf in) {
        int number = 0;
        for (int shift = 0;; shift += 7) {
            byte part = in.readByte();
            number |= (part & 0x7F) << shift;
            if (part >= 0) {
                return number;
            }
        }
    }
}
