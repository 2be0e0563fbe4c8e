package io.speck.spark.mqtt;

import java.util.Collection;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tells the tasks of a query if they may have read further messages than the one that they work on: Python functions, and
 * others that get their rows in batches, take rows ahead of their results.
 */
final class ReadAhead {
    /** A property of the jobs of a query: "true" if their tasks may read ahead. */
    private static final String PROPERTY = "speck.mqtt.readsAhead";
    /** The nodes, beside those of {@link StampMode}, that give all rows of an input row before they take the next one. */
    private static final Set<String> IN_ORDER = Set.of("ExpandExec", "AppendColumnsExec", "BroadcastHashJoinExec",
            "BroadcastNestedLoopJoinExec", "LocalLimitExec");
    /** The nodes that take all rows, one at a time, before they give any: no message is the present one then. */
    private static final Set<String> AT_END = Set.of("ShuffleExchangeExec", "BroadcastExchangeExec", "SortExec",
            "HashAggregateExec", "ObjectHashAggregateExec");

    private ReadAhead() {}

    /** Notes it for the jobs that this thread starts. */
    static void note(SparkContext spark, SparkPlan plan) {
        spark.setLocalProperty(PROPERTY, Boolean.toString(plan == null || readsAhead(plan)));
    }

    /** True if a task may have read ahead; false if its sink has not noted it. */
    static boolean isIn(TaskContext task) {
        return Boolean.parseBoolean(task.getLocalProperty(PROPERTY));
    }

    private static boolean readsAhead(SparkPlan plan) {
        boolean inOrder = StampMode.isRowByRow(plan) || IN_ORDER.contains(name(plan)) || AT_END.contains(name(plan));
        return children(plan).stream().anyMatch(each -> readsAhead(each) || !inOrder && reads(each));
    }

    /** True if the plan gives its rows while it reads messages. */
    private static boolean reads(SparkPlan plan) {
        return plan instanceof MicroBatchScanExec
                || !AT_END.contains(name(plan)) && children(plan).stream().anyMatch(ReadAhead::reads);
    }

    private static String name(SparkPlan plan) {
        return plan.getClass().getSimpleName();
    }

    private static Collection<SparkPlan> children(SparkPlan plan) {
        return CollectionConverters.asJavaCollection(plan.children());
    }
}
