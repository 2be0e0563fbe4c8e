package io.speck.sql.flink;

import io.speck.flink.mqtt.PassesOn;
import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.sql.Panes;
import io.speck.sql.Sender;
import io.speck.sql.SqlProgram;
import java.io.IOError;
import java.util.List;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * The frames of an input job that sends each row. Rows that wait for others of their frame are in no state: the source
 * begins with their messages again. The progress is, as it decides where frames end.
 *
 * <p>Before the first frame it sends what {@link MergeSlides} has left in the state: behind a later progress the rest
 * of the query would drop it.
 */
final class SendRows extends InputJob implements PassesOn {
    private static final long serialVersionUID = 1L;

    private transient Sender sender;
    /** Rows of slides that are not sent yet; none but after a change of the cut. */
    private transient List<String> left;

    SendRows(String program) {
        super(program);
    }

    @Override
    void begin(SqlProgram program, List<String> slides, long progress) {
        sender = program.sender();
        sender.restore(progress);
        left = slides;
    }

    @Override
    List<String> slides() {
        return left;
    }

    @Override
    long progress() {
        return sender.progress();
    }

    @Override
    public void processElement(StreamRecord<Received> element) {
        Received message = element.getValue();
        CurrentInput input = CurrentInput.ofThread();
        boolean waited = sender.waits();
        // The source sends a message without a topic when rows may wait no longer.
        List<String> frames = message.topic() == null ? closed()
                : sender.texts(message.topic(), message.payload(), input.mayWait());
        try {
            frames.forEach(each -> send(each, input));
        } catch (RuntimeException e) {
            if (waited) { // rows of other messages were in the frame: this one alone must not be blamed, and left out
                throw new IOError(e);
            }
            throw e;
        }
        input.hold(sender.waits());
    }

    private List<String> closed() {
        String frame = sender.close();
        return frame == null ? List.of() : List.of(frame);
    }

    private void send(String frame, CurrentInput input) {
        if (!left.isEmpty()) {
            input.aside(() -> Panes.left(left).forEach(each -> output.collect(new StreamRecord<>(each))));
            left = List.of();
        }
        output.collect(new StreamRecord<>(frame));
    }
}
