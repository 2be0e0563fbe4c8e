package io.speck.nexmark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
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

/**
 * Gives out lines in the order of their timestamps, and of one timestamp in that of their text, each with the marks of
 * progress that readers need. Windows and timers of one time fire in an order that changes with a restart, but the sink
 * counts its messages: the n-th has to be the same again.
 */
final class Ordered extends AbstractStreamOperator<String> implements OneInputStreamOperator<String, String> {
    private static final long serialVersionUID = 1L;

    private final long period;
    private transient NavigableMap<Long, List<String>> waiting;
    private transient ListState<Tuple2<Long, String>> kept;

    /** @param period of the windows whose end is marked, in milliseconds; 0 to mark nothing but the end of all */
    Ordered(long period) {
        this.period = period;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        kept = context.getOperatorStateStore().getListState(
                new ListStateDescriptor<>("waiting", Types.TUPLE(Types.LONG, Types.STRING)));
        waiting = new TreeMap<>();
        for (Tuple2<Long, String> each : kept.get()) {
            wait(each.f0, each.f1);
        }
    }

    private void wait(long time, String line) {
        waiting.computeIfAbsent(time, any -> new ArrayList<>()).add(line);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        kept.clear();
        for (Map.Entry<Long, List<String>> each : waiting.entrySet()) {
            for (String line : each.getValue()) {
                kept.add(Tuple2.of(each.getKey(), line));
            }
        }
    }

    @Override
    public void processElement(StreamRecord<String> element) {
        wait(element.getTimestamp(), element.getValue());
    }

    @Override
    public void processWatermark(Watermark mark) {
        NavigableMap<Long, List<String>> complete = waiting.headMap(mark.getTimestamp(), true);
        complete.forEach(this::give);
        complete.clear();
        if (mark.getTimestamp() == Watermark.MAX_WATERMARK.getTimestamp()) {
            give(Line.END, Line.progress(Line.END));
        }
        output.emitWatermark(mark);
    }

    private void give(long time, List<String> lines) {
        Collections.sort(lines);
        lines.forEach(line -> give(time, line));
        if (period > 0 && (time + 1) % period == 0) {
            give(time, Line.progress(time + 1));
        }
    }

    private void give(long time, String line) {
        output.collect(new StreamRecord<>(line, time));
    }
}
