package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.SqlProgram;
import io.speck.sql.Watermarks;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;

/**
 * The operator of an input job, which makes frames of messages. Its state has one form for all cuts, so that each continues
 * what another one has left: the rows of the slides that are open, and the progress.
 */
abstract class InputJob extends AbstractStreamOperator<String> implements OneInputStreamOperator<Received, String> {
    private static final ListStateDescriptor<String> SLIDES = new ListStateDescriptor<>("slides", Types.STRING);
    private static final ListStateDescriptor<Long> PROGRESS = new ListStateDescriptor<>("progress", Types.LONG);
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient ListState<String> slides;
    private transient ListState<Long> progress;

    InputJob(String program) {
        text = program;
    }

    /**
     * Begins with what was kept.
     *
     * @param slides the rows of the slides that are open
     * @param progress {@link Watermarks#NONE} if no message has come
     */
    abstract void begin(SqlProgram program, List<String> slides, long progress);

    /** Returns the rows of the slides that are open. */
    abstract List<String> slides();

    abstract long progress();

    @Override
    public final void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        slides = context.getOperatorStateStore().getListState(SLIDES);
        progress = context.getOperatorStateStore().getListState(PROGRESS);
        List<String> rows = new ArrayList<>();
        slides.get().forEach(rows::add);
        long reached = Watermarks.NONE;
        for (Long each : progress.get()) {
            reached = Math.max(reached, each);
        }
        begin(SqlProgram.of(text), rows, reached);
    }

    @Override
    public final void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        slides.update(slides());
        progress.update(List.of(progress()));
    }
}
