package io.speck.sql.flink;

import io.speck.mqtt.Received;
import io.speck.sql.Panes;
import io.speck.sql.SqlProgram;
import java.util.List;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * The frames of an input job that merges the rows of each slide. They follow from the messages alone, by no clock: the sink
 * counts them, and the n-th has to be the same again. One task does all of it, without a keyBy between source and sink.
 */
final class MergeSlides extends InputJob {
    private static final long serialVersionUID = 1L;

    private transient SqlProgram program;
    private transient Panes panes;

    MergeSlides(String program) {
        super(program);
    }

    @Override
    void begin(SqlProgram program, List<String> slides, long progress) {
        this.program = program;
        panes = program.panes();
        slides.forEach(panes::restore);
        panes.restore(progress);
    }

    @Override
    List<String> slides() {
        return panes.kept();
    }

    @Override
    long progress() {
        return panes.progress();
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
