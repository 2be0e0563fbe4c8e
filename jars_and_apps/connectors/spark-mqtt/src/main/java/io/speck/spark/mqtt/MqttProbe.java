package io.speck.spark.mqtt;

import io.speck.connector.Brokers;
import io.speck.connector.probe.CoreProbe;
import io.speck.connector.probe.LinkProbe;
import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import java.io.Serializable;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The data source "mqtt-probe": a table of one row, measured by one task when it is read.
 *
 * <p>With a {@code topic}, and {@code brokerUrl} and a login as of the sink, {@link LinkProbe}; without, {@link
 * CoreProbe}. With {@code reach} true, the link is not measured, and the broker gets one byte. The columns are the
 * components of these records.
 */
public final class MqttProbe implements TableProvider, DataSourceRegister {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    private static final StructType LINK = StructType.fromDDL(
            "rttMillis DOUBLE NOT NULL, bytesPerSecond DOUBLE NOT NULL, probeBytes BIGINT NOT NULL");
    private static final StructType CORE =
            StructType.fromDDL("statelessPerSecond DOUBLE NOT NULL, keyedPerSecond DOUBLE NOT NULL");

    @Override
    public String shortName() {
        return "mqtt-probe";
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return Probe.parse(options).schema();
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new ProbeTable(schema);
    }

    /** The probe of a link, or of a core if there is no topic. */
    private record Probe(SinkSettings sink, String topic, boolean onlyReach) implements Serializable {
        static Probe parse(CaseInsensitiveStringMap options) {
            Set<String> names = new HashSet<>(OptionReader.LOGIN);
            names.addAll(Set.of("topic", "reach"));
            OptionReader reader = new OptionReader("probe", options, names);
            String topic = reader.text("topic", null);
            Login login = topic == null ? null : reader.login();
            boolean onlyReach = reader.flag("reach", false);
            reader.done();
            if (topic != null) {
                Brokers.of(login).checkTopic(topic);
            }
            return new Probe(topic == null ? null : new SinkSettings(login, TIMEOUT), topic, onlyReach);
        }

        StructType schema() {
            return topic == null ? CORE : LINK;
        }

        InternalRow measure() throws InterruptedException {
            if (topic == null) {
                CoreProbe found = CoreProbe.measure();
                return row(found.statelessPerSecond(), found.keyedPerSecond());
            }
            LinkProbe found = onlyReach ? LinkProbe.reach(sink, topic) : LinkProbe.measure(sink, topic);
            return row(found.rttMillis(), found.bytesPerSecond(), found.probeBytes());
        }

        private static InternalRow row(Object... values) {
            return new GenericInternalRow(values);
        }
    }

    private record ProbeTable(StructType rows) implements SupportsRead {
        @Override
        public String name() {
            return "mqtt-probe";
        }

        @Override
        public Column[] columns() {
            return Arrays.stream(rows.fields()).map(field -> Column.create(field.name(), field.dataType()))
                    .toArray(Column[]::new);
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            Probe probe = Probe.parse(options);
            return () -> new ProbeScan(probe);
        }
    }

    private record ProbeScan(Probe probe) implements Scan, Batch {
        @Override
        public StructType readSchema() {
            return probe.schema();
        }

        @Override
        public Batch toBatch() {
            return this;
        }

        @Override
        public InputPartition[] planInputPartitions() {
            return new InputPartition[] {new OnlyPartition()};
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            Probe measured = probe;
            return partition -> new ProbeReader(measured);
        }
    }

    private record OnlyPartition() implements InputPartition {}

    private static final class ProbeReader implements PartitionReader<InternalRow> {
        private final Probe probe;
        private InternalRow row;

        ProbeReader(Probe probe) {
            this.probe = probe;
        }

        @Override
        public boolean next() {
            if (row != null) {
                return false;
            }
            try {
                row = probe.measure();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("the probe was interrupted", e);
            }
            return true;
        }

        @Override
        public InternalRow get() {
            return row;
        }

        @Override
        public void close() {}
    }
}
