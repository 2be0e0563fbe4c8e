package io.speck.spark.mqtt;

import io.speck.connector.Brokers;
import io.speck.connector.writer.SinkMetrics;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.failure.OnErrorSink;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A topic: read as a stream, written by streams and batches. */
final class MqttTable implements SupportsRead, SupportsWrite, ReportsSinkMetrics {
    private static final Pattern SOURCE = Pattern.compile("/sources/(\\d{1,9})/?$");
    private static final Pattern LAST_PART = Pattern.compile("([^/]*)/*$");
    /** The setting of a session with the checkpoint of the one query that may read the messages. */
    private static final String CHECKPOINT = "spark.speck.checkpoint";

    private static final Logger LOG = LoggerFactory.getLogger(MqttTable.class);

    private final StructType schema;
    /** The job in the stamps; null for none. */
    private volatile String writer;
    private final WriteCounts counts = new WriteCounts();

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
        StructType rows = read.columns().schema();
        if (!rows.simpleString().equals(schema.simpleString())) {
            throw new InvalidSettingException("mqtt source: a schema of " + schema.simpleString()
                    + " is not supported (its rows are " + rows.simpleString() + "; leave the schema out)");
        }
        return () -> new TopicScan(rows, read);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        SparkSession spark = SparkSession.active();
        WriteOptions write = WriteOptions.parse(info.options(), spark.conf()).spool(spool(spark));
        writer = write.job();
        if (writer != null) {
            SinkMetrics.begin(writer, this);
        }
        return new MqttWriteBuilder(info.schema(), info.queryId(), write, counts);
    }

    /**
     * Sends what an earlier process left on disk for the broker of a sink. Its query opens no writer until there is a row
     * to be written, which may be long after a power cut.
     */
    static void takeOver(CaseInsensitiveStringMap options) {
        SparkSession spark = SparkSession.active();
        if (options.isEmpty() || options.containsKey("clientId") || spool(spark) == null) {
            return; // no sink, or no disk
        }
        try {
            OnErrorSink.Settings sink = WriteOptions.parse(options, spark.conf()).spool(spool(spark)).sink();
            Brokers.of(sink.sink().login()).takeOver(sink.sink());
            if (sink.parking() != null) {
                Brokers.of(sink.parking())
                        .takeOver(new SinkSettings(sink.parking(), sink.sink().flushTimeout()).withSpool(spool(spark)));
            }
        } catch (InvalidSettingException e) {
            LOG.debug("{}", e.getMessage()); // the query fails with it when it writes
        }
    }

    /** The folder for messages that a broker may not have saved; null if it is not on a disk of this machine. */
    static String spool(SparkSession session) {
        return LocalFolder.of(session.conf().get("spark.speck.spool", null), session.sessionState().newHadoopConf());
    }

    /** The metrics of the sink; {@code retained} and the three after it are those of the writers in this process. */
    @Override
    public Map<String, String> metrics() {
        Map<String, String> values = new HashMap<>(counts.values());
        if (writer != null) {
            SinkMetrics ofJob = SinkMetrics.of(writer, this);
            values.put("retained", Long.toString(ofJob.retained()));
            values.put("resent", Long.toString(ofJob.resent()));
            values.put("retainedDropped", Long.toString(ofJob.retainedDropped()));
            values.put("throttledMillis", Long.toString(ofJob.throttledMillis()));
        }
        return values;
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
            checkQuery(SOURCE.matcher(checkpointLocation).replaceFirst(""));
            return new MqttMicroBatchStream(options, checkpointLocation, source(checkpointLocation));
        }

        /** Refuses a query that the code of a job has started: it would take the messages from the job itself. */
        private static void checkQuery(String checkpoint) {
            String expected = SparkSession.active().conf().get(CHECKPOINT, "");
            if (!expected.isEmpty() && !lastPart(expected).equals(lastPart(checkpoint))) {
                throw new InvalidSettingException("mqtt source: the messages of a job are read by the query that SpecK "
                        + "starts, and by no other (return the DataFrame instead of starting a query of it)");
            }
        }

        /** The name of the attempt: the file system may write the rest of a location otherwise. */
        private static String lastPart(String location) {
            Matcher matcher = LAST_PART.matcher(location);
            return matcher.find() ? matcher.group(1) : "";
        }

        /** The number of a source among those of its query, by the name of its part of the checkpoint. */
        private static int source(String checkpointLocation) {
            Matcher matcher = SOURCE.matcher(checkpointLocation);
            return matcher.find() ? Integer.parseInt(matcher.group(1)) : 0;
        }
    }
}
