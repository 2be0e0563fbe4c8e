package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.Frame;
import io.speck.sql.SqlProgram;
import io.speck.sql.Watermarks;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/**
 * The rows of messages before the windows, or the join, of a query, and the watermarks between them. These follow from the
 * messages alone, by no clock, so that a message which is read again moves them at the same place.
 *
 * <p>A generator of watermarks in Flink's API does not distinguish inputs, does not see the rows that a condition leaves
 * out, and forgets over a restart how far each one was: a late row would open a window again that was written.
 */
final class DecodeTimed extends AbstractStreamOperator<Row> implements OneInputStreamOperator<Received, Row> {
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram program;
    private transient Watermarks watermarks;
    private transient ListState<Tuple2<String, Long>> kept;
    private transient ListState<Long> mark;
    /** True once the watermark of the time before a restart is known to the operators behind. */
    private transient boolean announced;

    DecodeTimed(String program) {
        text = program;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        program = SqlProgram.of(text);
        watermarks = program.watermarks();
        kept = context.getOperatorStateStore().getListState(
                new ListStateDescriptor<>("reached", Types.TUPLE(Types.STRING, Types.LONG)));
        for (Tuple2<String, Long> each : kept.get()) {
            watermarks.advance(each.f0, each.f1);
        }
        mark = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("mark", Types.LONG));
        mark.get().forEach(watermarks::resume);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        kept.clear();
        for (Map.Entry<String, Long> each : watermarks.reached().entrySet()) {
            kept.add(Tuple2.of(each.getKey(), each.getValue()));
        }
        mark.update(List.of(watermarks.mark()));
    }

    @Override
    public void processElement(StreamRecord<Received> element) {
        Frame frame = program.frame(element.getValue().topic(), element.getValue().payload());
        if (!announced && watermarks.mark() != Watermarks.NONE) {
            emitWatermark();
        }
        for (Object[] row : program.rows(frame)) {
            if (!isLateForSession((Long) row[0])) {
                output.collect(new StreamRecord<>(Row.of(row), (Long) row[0]));
            }
        }
        if (watermarks.advance(frame.input(), frame.progress())) {
            emitWatermark();
        }
    }

    /**
     * True for a row whose own session is over, without any other row. Flink merges it with a session that is open, and asks
     * only then whether it is late; Spark asks first, as the reference does.
     */
    private boolean isLateForSession(long time) {
        SqlProgram.Windows windows = program.windows();
        return windows != null && windows.session() && time + windows.sizeMillis() <= watermarks.mark();
    }

    private void emitWatermark() {
        announced = true;
        output.emitWatermark(new Watermark(watermarks.mark() - 1));
    }

    /** Drops the watermarks of the source, which has none of its own. */
    @Override
    public void processWatermark(Watermark mark) {}
}
