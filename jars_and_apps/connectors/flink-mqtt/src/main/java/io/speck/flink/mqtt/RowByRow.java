package io.speck.flink.mqtt;

import java.util.List;
import java.util.Set;
import org.apache.flink.api.common.functions.Function;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.operators.AbstractUdfStreamOperator;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.apache.flink.streaming.api.operators.SimpleOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamFilter;
import org.apache.flink.streaming.api.operators.StreamFlatMap;
import org.apache.flink.streaming.api.operators.StreamMap;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.streaming.api.transformations.SourceTransformation;
import org.apache.flink.streaming.api.transformations.TimestampsAndWatermarksTransformation;

/**
 * The check, while a job's graph is built, that each element before a sink comes from the message that the source of
 * the same chain has emitted last. Operators with keys, state, timers or threads of their own, unions, and Python
 * functions (which get their elements in batches) may emit others.
 */
final class RowByRow {
    private static final Set<Class<?>> OPERATORS =
            Set.of(StreamMap.class, StreamFilter.class, StreamFlatMap.class, ProcessOperator.class);

    private RowByRow() {}

    static boolean is(Transformation<?> last) {
        Transformation<?> each = last;
        while (isOneToMany(each)) {
            List<Transformation<?>> inputs = each.getInputs();
            each = inputs.get(0);
        }
        return each instanceof SourceTransformation<?, ?, ?> source && source.getSource() instanceof FlinkMqttSource;
    }

    private static boolean isOneToMany(Transformation<?> each) {
        return each instanceof TimestampsAndWatermarksTransformation
                || each instanceof OneInputTransformation<?, ?> one
                && one.getOperatorFactory() instanceof SimpleOperatorFactory<?> factory
                && isOneToMany(factory.getOperator());
    }

    private static boolean isOneToMany(StreamOperator<?> operator) {
        if (operator instanceof PassesOn) {
            return true;
        }
        if (!OPERATORS.contains(operator.getClass())) {
            return false;
        }
        Function function = ((AbstractUdfStreamOperator<?, ?>) operator).getUserFunction();
        return !(function instanceof CheckpointedFunction);
    }
}
