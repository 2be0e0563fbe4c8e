package io.speck.spark.mqtt;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The data source "mqtt" of Spark Structured Streaming: {@code spark.readStream.format("mqtt")}. */
public final class MqttDataSource implements TableProvider, DataSourceRegister {
    @Override
    public String shortName() {
        return "mqtt";
    }

    /** Called by Spark for sources only, so that a wrong option fails when the stream is loaded, not when it runs. */
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return ReadOptions.parse(options).columns().schema();
    }

    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }

    /** Called by Spark when a query starts, with the options of its source or sink, and for each batch that is written. */
    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        MqttTable.takeOver(new CaseInsensitiveStringMap(properties));
        return new MqttTable(schema);
    }
}
