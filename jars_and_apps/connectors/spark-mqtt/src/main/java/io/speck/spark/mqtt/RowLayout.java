package io.speck.spark.mqtt;

import io.speck.mqtt.InvalidSettingException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** The indexes of the sink's columns: value (STRING or BINARY), and optionally key and topic; -1 for none. */
record RowLayout(int value, boolean binaryValue, int key, boolean binaryKey, int topic) implements Serializable {
    private static final String EXPECTED =
            " (expected value STRING or BINARY, optionally key STRING or BINARY, optionally topic STRING)";

    /** @throws InvalidSettingException naming every fault of the schema */
    static RowLayout of(StructType schema, boolean topicGiven) {
        List<String> faults = new ArrayList<>();
        int value = column(schema, "value", true, faults);
        int key = column(schema, "key", true, faults);
        int topic = column(schema, "topic", false, faults);
        if (value < 0) {
            faults.add("there is no column 'value'");
        }
        if (topic < 0 && !topicGiven) {
            faults.add("there is neither an option 'topic' nor a column 'topic'");
        }
        if (!faults.isEmpty()) {
            throw new InvalidSettingException("mqtt sink: " + String.join("; ", faults) + "; the columns are "
                    + schema.simpleString() + EXPECTED);
        }
        return new RowLayout(value, binary(schema, value), key, binary(schema, key), topic);
    }

    private static int column(StructType schema, String name, boolean binaryAllowed, List<String> faults) {
        int index = schema.getFieldIndex(name).isEmpty() ? -1 : schema.fieldIndex(name);
        if (index >= 0) {
            DataType type = schema.fields()[index].dataType();
            if (!(type instanceof StringType || binaryAllowed && type instanceof BinaryType)) {
                faults.add("column '" + name + "' is of type " + type.simpleString());
            }
        }
        return index;
    }

    private static boolean binary(StructType schema, int index) {
        return index >= 0 && schema.fields()[index].dataType() instanceof BinaryType;
    }

    /** Returns the payload; empty for NULL. */
    byte[] valueOf(InternalRow row) {
        return row.isNullAt(value) ? new byte[0] : bytes(row, value, binaryValue);
    }

    /** Returns the key, or null. */
    byte[] keyOf(InternalRow row) {
        return key < 0 || row.isNullAt(key) ? null : bytes(row, key, binaryKey);
    }

    UTF8String topicOf(InternalRow row) {
        return topic < 0 || row.isNullAt(topic) ? null : row.getUTF8String(topic);
    }

    private static byte[] bytes(InternalRow row, int index, boolean binary) {
        return binary ? row.getBinary(index) : row.getUTF8String(index).getBytes();
    }
}
