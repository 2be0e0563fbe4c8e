package io.speck.sql.flink;

import io.speck.sql.Join;
import io.speck.sql.SqlProgram;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/**
 * The results of the rows of two tables that have one key, and times within bounds. A result comes with the second of its
 * rows, and has the later of both times. A row is kept until no other one can come for it.
 *
 * <p>The join by time in Flink's API takes two streams; here both come from one source, which has one watermark.
 */
final class JoinByTime extends AbstractStreamOperator<String>
        implements OneInputStreamOperator<Row, String>, Triggerable<String, VoidNamespace> {
    private static final long serialVersionUID = 1L;
    private static final int SIDES = 2;

    private final String text;
    private transient Join join;
    /** The rows of each table, with their times. */
    private transient List<ListState<Tuple2<Long, String>>> kept;
    private transient InternalTimerService<VoidNamespace> timers;

    JoinByTime(String program) {
        text = program;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        join = SqlProgram.of(text).join();
        kept = new ArrayList<>();
        for (int side = 0; side < SIDES; side++) {
            kept.add(context.getKeyedStateStore().getListState(
                    new ListStateDescriptor<>("rows-" + side, Types.TUPLE(Types.LONG, Types.STRING))));
        }
        timers = getInternalTimerService("ends", VoidNamespaceSerializer.INSTANCE, this);
    }

    @Override
    public void processElement(StreamRecord<Row> element) throws Exception {
        Row row = element.getValue();
        int side = RowTypes.side(row);
        long time = element.getTimestamp();
        if (time <= timers.currentWatermark()) {
            return; // late
        }
        for (Tuple2<Long, String> other : kept.get(1 - side).get()) {
            boolean first = side == 0;
            if (join.joins(first ? time : other.f0, first ? other.f0 : time)) {
                long later = Math.max(time, other.f0);
                String own = RowTypes.joined(row);
                String result = join.result(later, later, first ? own : other.f1, first ? other.f1 : own);
                if (result != null) {
                    output.collect(new StreamRecord<>(result, later));
                }
            }
        }
        kept.get(side).add(Tuple2.of(time, RowTypes.joined(row)));
        timers.registerEventTimeTimer(VoidNamespace.INSTANCE, join.lastOther(side, time));
    }

    /** Drops the rows of a key for which no other one can come. */
    @Override
    public void onEventTime(InternalTimer<String, VoidNamespace> timer) throws Exception {
        for (int side = 0; side < SIDES; side++) {
            List<Tuple2<Long, String>> found = new ArrayList<>();
            for (Tuple2<Long, String> each : kept.get(side).get()) {
                if (join.lastOther(side, each.f0) > timers.currentWatermark()) {
                    found.add(each);
                }
            }
            kept.get(side).update(found);
        }
    }

    @Override
    public void onProcessingTime(InternalTimer<String, VoidNamespace> timer) {
        throw new IllegalStateException("a query has no timer by the clock");
    }
}
