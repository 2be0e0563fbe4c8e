package io.speck.spark.mqtt;

import io.speck.connector.reader.Message;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The columns of the source: {@code topic STRING, value STRING or BINARY, timestamp TIMESTAMP}, and with metadata
 * {@code key STRING, offset BIGINT}. Of decoded messages {@code row BINARY} takes the place of {@code value}.
 *
 * @param binaryValue true if the column {@code value} is BINARY instead of STRING
 * @param metadata true for the columns of metadata, which are not there by default: a query whose state has all columns
 *     could not continue from an older checkpoint
 * @param decoded true for messages that the program of a SQL job has decoded, whose form is that program's
 */
record RowColumns(boolean binaryValue, boolean metadata, boolean decoded) implements Serializable {
    static final int TOPIC = 0;
    static final int VALUE = 1;
    static final int TIMESTAMP = 2;
    private static final int KEY = 3;
    private static final int OFFSET = 4;
    private static final long MICROS_A_MILLI = 1000;
    private static final byte[] EMPTY = new byte[0];

    RowColumns(boolean binaryValue, boolean metadata) {
        this(binaryValue, metadata, false);
    }

    StructType schema() {
        StructType plain = new StructType()
                .add("topic", DataTypes.StringType)
                .add(decoded ? "row" : "value", binaryValue ? DataTypes.BinaryType : DataTypes.StringType)
                .add("timestamp", DataTypes.TimestampType);
        return metadata ? plain.add("key", DataTypes.StringType).add("offset", DataTypes.LongType) : plain;
    }

    GenericInternalRow newRow() {
        return new GenericInternalRow(metadata ? OFFSET + 1 : TIMESTAMP + 1);
    }

    void time(GenericInternalRow row, long receivedMillis) {
        row.update(TIMESTAMP, receivedMillis * MICROS_A_MILLI);
    }

    /** @param key null for none */
    void metadata(GenericInternalRow row, UTF8String key, long offset) {
        if (metadata) {
            row.update(KEY, key);
            row.update(OFFSET, offset);
        }
    }

    /** The bytes of a message's key for {@link #putKey}; null for none, and without metadata. */
    byte[] key(Message message) {
        return metadata && message.key() != null ? message.key().getBytes(StandardCharsets.UTF_8) : null;
    }

    /** The bytes that {@link #putKey} writes. */
    int keySize(byte[] key) {
        return !metadata ? 0 : Integer.BYTES + (key == null ? 0 : key.length);
    }

    void putKey(ByteBuffer packed, byte[] key) {
        if (metadata) {
            packed.putInt(key == null ? -1 : key.length).put(key == null ? EMPTY : key);
        }
    }

    /** Reads what {@link #putKey} has written; null for none. */
    UTF8String takeKey(ByteBuffer packed) {
        int length = metadata ? packed.getInt() : -1;
        if (length < 0) {
            return null;
        }
        byte[] key = new byte[length];
        packed.get(key);
        return UTF8String.fromBytes(key);
    }
}
