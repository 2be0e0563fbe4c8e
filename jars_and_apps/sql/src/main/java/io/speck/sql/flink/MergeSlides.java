package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.Panes;
import io.speck.sql.SqlProgram;
import java.util.List;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * The frames of an input job that merges the rows of each slide. They follow from the messages alone, by no clock: the sink
 * counts them, and the n-th has to be the same again. One task does all of it, without a keyBy between source and sink.
 *
 * <p>{@link SendRows} has the same state, for a change of the cut.
 */
final class MergeSlides extends AbstractStreamOperator<String> implements OneInputStreamOperator<Received, String> {
    static final ListStateDescriptor<String> SLIDES = new ListStateDescriptor<>("slides", Types.STRING);
    static final ListStateDescriptor<Long> PROGRESS = new ListStateDescriptor<>("progress", Types.LONG);
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram program;
    private transient Panes panes;
    private transient ListState<String> slides;
    private transient ListState<Long> progress;

    MergeSlides(String program) {
        text = program;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        program = SqlProgram.of(text);
        panes = program.panes();
        slides = context.getOperatorStateStore().getListState(SLIDES);
        progress = context.getOperatorStateStore().getListState(PROGRESS);
        for (String each : slides.get()) {
            panes.restore(each);
        }
        for (Long each : progress.get()) {
            panes.restore(each);
        }
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        slides.update(panes.kept());
        progress.update(List.of(panes.progress()));
    }

    @Override
    public void processElement(StreamRecord<Received> element) {
        Received message = element.getValue();
        for (String each : panes.take(program.frame(message.topic(), message.payload()))) {
            output.collect(new StreamRecord<>(each));
        }
    }

    /** Drops the watermarks of the source, which has none of its own. */
    @Override
    public void processWatermark(Watermark mark) {}
}
