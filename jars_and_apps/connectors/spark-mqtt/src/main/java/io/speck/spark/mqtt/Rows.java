package io.speck.spark.mqtt;

import io.speck.mqtt.reader.Message;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** The rows of the source: {@code topic STRING, value STRING or BINARY, timestamp TIMESTAMP}. */
final class Rows {
    private static final long MICROS_A_MILLI = 1000;

    private Rows() {}

    static StructType schema(boolean binaryValue) {
        return new StructType()
                .add("topic", DataTypes.StringType)
                .add("value", binaryValue ? DataTypes.BinaryType : DataTypes.StringType)
                .add("timestamp", DataTypes.TimestampType);
    }

    /**
     * Packs messages into one array, which is sent to the executors at the cost of copying bytes: the topics once, then
     * for each message (topic number, time in milliseconds, length, payload).
     */
    static InputPartition pack(List<Message> messages) {
        Map<String, Integer> topics = new LinkedHashMap<>();
        int bytes = 0;
        for (Message message : messages) {
            topics.putIfAbsent(message.topic(), topics.size());
            bytes += 16 + message.payload().length;
        }
        ByteBuffer packed = ByteBuffer.allocate(bytes);
        for (Message message : messages) {
            packed.putInt(topics.get(message.topic())).putLong(message.receivedMillis());
            packed.putInt(message.payload().length).put(message.payload());
        }
        return new Packed(topics.keySet().toArray(new String[0]), messages.size(), packed.array());
    }

    private record Packed(String[] topics, int count, byte[] bytes) implements InputPartition {}

    record Factory(boolean binaryValue) implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            return new Reader((Packed) partition, binaryValue);
        }
    }

    private static final class Reader implements PartitionReader<InternalRow> {
        private final UTF8String[] topics;
        private final ByteBuffer packed;
        private final boolean binaryValue;
        private final GenericInternalRow row = new GenericInternalRow(3);
        private int remaining;

        Reader(Packed partition, boolean binaryValue) {
            this.topics = Arrays.stream(partition.topics()).map(UTF8String::fromString).toArray(UTF8String[]::new);
            this.packed = ByteBuffer.wrap(partition.bytes());
            this.remaining = partition.count();
            this.binaryValue = binaryValue;
        }

        @Override
        public boolean next() {
            if (remaining == 0) {
                return false;
            }
            remaining--;
            row.update(0, topics[packed.getInt()]);
            row.update(2, packed.getLong() * MICROS_A_MILLI);
            row.update(1, value(packed.getInt()));
            return true;
        }

        private Object value(int length) {
            int at = packed.position();
            packed.position(at + length);
            if (binaryValue) {
                return Arrays.copyOfRange(packed.array(), at, at + length);
            }
            UTF8String text = UTF8String.fromBytes(packed.array(), at, length);
            return text.isValid() ? text : text.makeValid();
        }

        @Override
        public InternalRow get() {
            return row;
        }

        @Override
        public void close() {}
    }
}
