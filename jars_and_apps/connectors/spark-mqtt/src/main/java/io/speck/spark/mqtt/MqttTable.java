package io.speck.spark.mqtt;

import io.speck.mqtt.InvalidSettingException;
import java.util.Arrays;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A topic: read as a stream, written by streams and batches. */
final class MqttTable implements SupportsRead, SupportsWrite {
    private final StructType schema;

    MqttTable(StructType schema) {
        this.schema = schema;
    }

    @Override
    public String name() {
        return "mqtt";
    }

    @Override
    public Column[] columns() {
        return Arrays.stream(schema.fields())
                .map(field -> Column.create(field.name(), field.dataType(), field.nullable()))
                .toArray(Column[]::new);
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.MICRO_BATCH_READ, TableCapability.STREAMING_WRITE, TableCapability.BATCH_WRITE,
                TableCapability.TRUNCATE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        ReadOptions read = ReadOptions.parse(options);
        StructType rows = Rows.schema(read.binaryValue());
        if (!rows.simpleString().equals(schema.simpleString())) {
            throw new InvalidSettingException("mqtt source: a schema of " + schema.simpleString()
                    + " is not supported (its rows are " + rows.simpleString() + "; leave the schema out)");
        }
        return () -> new TopicScan(rows, read);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new MqttWriteBuilder(info.schema(), info.queryId(), WriteOptions.parse(info.options()));
    }

    private record TopicScan(StructType schema, ReadOptions options) implements Scan {
        @Override
        public StructType readSchema() {
            return schema;
        }

        @Override
        public String description() {
            return "mqtt " + options.source().topic() + " at " + options.source().login();
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
            return new MqttMicroBatchStream(options, checkpointLocation);
        }
    }
}
