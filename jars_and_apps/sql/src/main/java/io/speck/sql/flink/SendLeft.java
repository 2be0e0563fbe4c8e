package io.speck.sql.flink;

import io.speck.flink.mqtt.PassesOn;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.sql.Panes;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Passes on the frames of an input job that sends each row. Before the first one it sends what {@link MergeSlides} has left
 * in the same state: behind a later progress the rest of the query would drop it.
 */
final class SendLeft extends AbstractStreamOperator<String> implements OneInputStreamOperator<String, String>, PassesOn {
    private static final long serialVersionUID = 1L;

    /** Rows of slides that are not sent yet; none but after a change of the cut. */
    private transient List<String> left;
    private transient ListState<String> slides;

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        slides = context.getOperatorStateStore().getListState(MergeSlides.SLIDES);
        left = new ArrayList<>();
        slides.get().forEach(left::add);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        slides.update(left);
    }

    @Override
    public void processElement(StreamRecord<String> element) {
        if (!left.isEmpty()) {
            CurrentInput.ofThread().aside(
                    () -> Panes.left(left).forEach(each -> output.collect(new StreamRecord<>(each))));
            left = List.of();
        }
        output.collect(element);
    }
}
