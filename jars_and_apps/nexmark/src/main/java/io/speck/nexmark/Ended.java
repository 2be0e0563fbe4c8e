package io.speck.nexmark;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Passes lines on, and the mark of the end behind the last. */
final class Ended extends AbstractStreamOperator<String> implements OneInputStreamOperator<String, String> {
    private static final long serialVersionUID = 1L;

    @Override
    public void processElement(StreamRecord<String> element) {
        output.collect(element);
    }

    @Override
    public void processWatermark(Watermark mark) {
        if (mark.getTimestamp() == Watermark.MAX_WATERMARK.getTimestamp()) {
            output.collect(new StreamRecord<>(Line.progress(Line.END), mark.getTimestamp()));
        }
        output.emitWatermark(mark);
    }
}
