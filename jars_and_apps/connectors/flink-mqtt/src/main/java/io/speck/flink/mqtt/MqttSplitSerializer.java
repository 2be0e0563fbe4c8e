package io.speck.flink.mqtt;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Serializes the split for checkpoints: position, end of the wait, number of records, and start, length and bytes of each.
 * Version 1 has no end of the wait.
 */
final class MqttSplitSerializer implements SimpleVersionedSerializer<MqttSplit> {
    private static final int VERSION = 2;

    @Override
    public int getVersion() {
        return VERSION;
    }

    @Override
    public byte[] serialize(MqttSplit split) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeLong(split.position());
        out.writeLong(split.waitEnd());
        out.writeInt(split.records().size());
        for (Map.Entry<Long, byte[]> record : split.records().entrySet()) {
            out.writeLong(record.getKey());
            out.writeInt(record.getValue().length);
            out.write(record.getValue());
        }
        return bytes.toByteArray();
    }

    @Override
    public MqttSplit deserialize(int version, byte[] serialized) throws IOException {
        if (version < 1 || version > VERSION) {
            throw new IOException("state of an mqtt source in version " + version + " (expected 1 to " + VERSION + ")");
        }
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(serialized));
        long position = in.readLong();
        long waitEnd = version > 1 ? in.readLong() : MqttSplit.NO_END;
        SortedMap<Long, byte[]> records = new TreeMap<>();
        for (int remaining = in.readInt(); remaining > 0; remaining--) {
            long start = in.readLong();
            records.put(start, in.readNBytes(in.readInt()));
        }
        return new MqttSplit(position, waitEnd, records);
    }

    static boolean same(MqttSplit one, MqttSplit other) {
        try {
            MqttSplitSerializer serializer = new MqttSplitSerializer();
            return Arrays.equals(serializer.serialize(one), serializer.serialize(other));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
