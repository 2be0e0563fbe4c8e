package io.speck.nexmark;

import io.speck.mqtt.Received;
import java.util.Map;
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
 * Takes the times of lines, and derives the watermark: the least time that was reached by every topic. The lines of a
 * topic have one writer, and come in the order of their times.
 *
 * <p>A generator of watermarks in Flink's API tells neither topics apart nor keeps its place over a restart, after which
 * a topic that had ended would hold back the watermark for ever.
 */
final class Progress extends AbstractStreamOperator<String> implements OneInputStreamOperator<Received, String> {
    private static final long serialVersionUID = 1L;
    /** Watermarks cost more than lines; closed windows wait no longer than this, in milliseconds. */
    private static final long STEP = 100;

    private final int streams;
    private transient Map<String, Long> reached;
    private transient ListState<Tuple2<String, Long>> kept;
    private transient long announced;

    /** @param streams the number of topics that are read */
    Progress(int streams) {
        this.streams = streams;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        kept = context.getOperatorStateStore().getListState(
                new ListStateDescriptor<>("reached", Types.TUPLE(Types.STRING, Types.LONG)));
        reached = new TreeMap<>();
        announced = Long.MIN_VALUE;
        for (Tuple2<String, Long> each : kept.get()) {
            reached.put(each.f0, each.f1);
        }
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        kept.clear();
        for (Map.Entry<String, Long> each : reached.entrySet()) {
            kept.add(Tuple2.of(each.getKey(), each.getValue()));
        }
    }

    @Override
    public void processElement(StreamRecord<Received> element) {
        String line = element.getValue().text();
        long time = Line.time(line);
        if (!Line.is(line, Line.PROGRESS)) {
            output.collect(new StreamRecord<>(line, time));
        }
        if (reached.merge(element.getValue().topic(), time, Math::max) == time) {
            announce();
        }
    }

    private void announce() {
        if (reached.size() > streams) {
            throw new IllegalStateException("argument '--streams' is " + streams + ", and messages of " + reached.size()
                    + " topics came: " + String.join(", ", reached.keySet()));
        }
        if (reached.size() < streams) {
            return;
        }
        long least = reached.values().stream().mapToLong(Long::longValue).min().orElseThrow();
        if (Math.floorDiv(least, STEP) > Math.floorDiv(announced, STEP)) {
            announced = least;
            // More lines of the same time may follow.
            output.emitWatermark(new Watermark(least == Line.END ? Long.MAX_VALUE : least - 1));
        }
    }

    /** Drops the watermarks of the source, which are of the times of receipt. */
    @Override
    public void processWatermark(Watermark mark) {}
}
