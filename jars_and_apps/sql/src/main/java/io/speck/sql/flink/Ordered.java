package io.speck.sql.flink;

import io.speck.sql.SqlProgram;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
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
 * Results in the order of their times, and those of one time in the order of their texts. Windows of one time end in an
 * order that changes with a restart, and the sink counts its messages: the n-th has to be the same again.
 *
 * <p>Of a join with DISTINCT equal results of a window are one. Of a query with ranks the texts are the rows of a window,
 * which is complete here: windows that end at one time are one window.
 */
final class Ordered extends AbstractStreamOperator<String> implements OneInputStreamOperator<String, String> {
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram program;
    /** The texts of each time, with the number of equal ones. */
    private transient NavigableMap<Long, NavigableMap<String, Integer>> waiting;
    private transient ListState<Tuple2<Long, String>> saved;

    Ordered(String program) {
        text = program;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        program = SqlProgram.of(text);
        waiting = new TreeMap<>();
        saved = context.getOperatorStateStore().getListState(
                new ListStateDescriptor<>("results", Types.TUPLE(Types.LONG, Types.STRING)));
        for (Tuple2<Long, String> each : saved.get()) {
            add(each.f0, each.f1);
        }
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        saved.clear();
        for (Long time : waiting.keySet()) {
            for (String text : waiting.get(time).keySet()) {
                for (int copies = waiting.get(time).get(text); copies > 0; copies--) {
                    saved.add(Tuple2.of(time, text));
                }
            }
        }
    }

    @Override
    public void processElement(StreamRecord<String> element) {
        add(element.getTimestamp(), element.getValue());
    }

    private void add(long time, String text) {
        boolean distinct = program.join() != null && program.join().distinct();
        waiting.computeIfAbsent(time, any -> new TreeMap<>())
                .merge(text, 1, (copies, more) -> distinct ? 1 : copies + more);
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        NavigableMap<Long, NavigableMap<String, Integer>> complete = waiting.headMap(mark.getTimestamp(), true);
        complete.forEach((time, texts) -> results(texts).forEach(each -> output.collect(new StreamRecord<>(each, time))));
        complete.clear();
        super.processWatermark(mark);
    }

    /** Returns the results of one time, in order. */
    private List<String> results(NavigableMap<String, Integer> texts) {
        List<String> found = new ArrayList<>();
        texts.forEach((text, copies) -> found.addAll(Collections.nCopies(copies, text)));
        if (!program.ranks()) {
            return found;
        }
        List<String> ranked = new ArrayList<>(program.ranked(found.stream().map(program::row).toList()));
        Collections.sort(ranked);
        return ranked;
    }
}
