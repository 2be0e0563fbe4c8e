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

/** Serializes the split for checkpoints: position, number of records, and start, length and bytes of each. */
final class MqttSplitSerializer implements SimpleVersionedSerializer<MqttSplit> {
    private static final int VERSION = 1;

    @Override
    public int getVersion() {
        return VERSION;
    }

    @Override
    public byte[] serialize(MqttSplit split) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeLong(split.position());
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
        if (version != VERSION) {
            throw new IOException("state of an mqtt source in version " + version + " (expected " + VERSION + ")");
        }
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(serialized));
        long position = in.readLong();
        SortedMap<Long, byte[]> records = new TreeMap<>();
        for (int remaining = in.readInt(); remaining > 0; remaining--) {
            long start = in.readLong();
            records.put(start, in.readNBytes(in.readInt()));
        }
        return new MqttSplit(position, records);
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
