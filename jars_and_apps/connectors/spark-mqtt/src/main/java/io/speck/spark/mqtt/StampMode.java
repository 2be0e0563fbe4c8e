package io.speck.spark.mqtt;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.GenerateExec;
import scala.jdk.javaapi.CollectionConverters;

/** The kind of a query's stamps: derived from the stamps of its input, or counted. */
enum StampMode {
    DERIVED, COUNTED;

    /**
     * The nodes that work row by row: each output row comes from the input row that their child returned last. All
     * others may hold rows back, or bring them into another order or thread, as do shuffles, sorts, limits, operators
     * with state, and Python functions, which get their rows in batches.
     */
    private static final Set<String> ROW_BY_ROW = Set.of("WriteToDataSourceV2Exec", "WholeStageCodegenExec",
            "InputAdapter", "ProjectExec", "FilterExec", "UnionExec", "CoalesceExec", "DeserializeToObjectExec",
            "MapElementsExec", "SerializeFromObjectExec", "CollectMetricsExec", "EventTimeWatermarkExec",
            "EmptyRelationExec");
    /** The generators that return all rows for an input row before they get the next one. */
    private static final Set<String> GENERATORS = Set.of("Explode", "PosExplode", "Inline", "Stack", "JsonTuple");

    /** Returns the plan of the batch that this thread is about to run; null if it is not known. */
    static SparkPlan runningPlan() {
        String id = SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        QueryExecution execution = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
        return execution == null ? null : execution.executedPlan();
    }

    /** True if the plan gives its rows to the sink as their messages arrive, and not at the end of a batch. */
    static boolean isRealTime(SparkPlan plan) {
        return plan instanceof RealTimeStreamScanExec || plan != null
                && CollectionConverters.asJava(plan.children()).stream().anyMatch(StampMode::isRealTime);
    }

    /** Returns the mode of a plan; counted for null. */
    static StampMode of(SparkPlan plan) {
        if (plan == null) {
            return COUNTED;
        }
        List<MicroBatchStream> streams = new ArrayList<>();
        boolean rowByRow = isRowByRow(plan, streams);
        // A stream that is read twice gives two rows for one message, in tasks that do not know of each other.
        Set<MicroBatchStream> distinct = Collections.newSetFromMap(new IdentityHashMap<>());
        distinct.addAll(streams);
        return rowByRow && distinct.size() == streams.size() ? DERIVED : COUNTED;
    }

    /**
     * Names the groupings of the messages of a plan ({@link MqttMicroBatchStream#grouping}); 0 if none of its batches has
     * failed.
     */
    static long grouping(SparkPlan plan) {
        long grouping = plan instanceof MicroBatchScanExec scan && scan.stream() instanceof MqttMicroBatchStream stream
                ? stream.grouping() : 0;
        for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
            grouping = 31 * grouping + grouping(child);
        }
        return grouping;
    }

    private static boolean isRowByRow(SparkPlan plan, List<MicroBatchStream> streams) {
        boolean all = true;
        for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
            all &= isRowByRow(child, streams);
        }
        return all && isRowByRowItself(plan, streams);
    }

    /** True if a node works row by row. */
    static boolean isRowByRow(SparkPlan node) {
        return isRowByRowItself(node, new ArrayList<>());
    }

    private static boolean isRowByRowItself(SparkPlan plan, List<MicroBatchStream> streams) {
        if (plan instanceof MicroBatchScanExec scan) {
            streams.add(scan.stream());
            return scan.stream() instanceof MqttMicroBatchStream;
        }
        if (plan instanceof RealTimeStreamScanExec scan) {
            streams.add(scan.stream());
            return scan.stream() instanceof MqttMicroBatchStream;
        }
        if (plan instanceof LocalTableScanExec local) {
            return local.rows().isEmpty(); // in place of a source without new messages
        }
        if (plan instanceof GenerateExec generate) {
            return GENERATORS.contains(generate.generator().getClass().getSimpleName());
        }
        return ROW_BY_ROW.contains(plan.getClass().getSimpleName());
    }

    /** The name of the mode in metrics. */
    @Override
    public String toString() {
        return this == DERIVED ? "derived" : "counted";
    }
}
