package io.speck.flink.mqtt;

import io.speck.mqtt.stamp.CurrentInput;
import io.speck.mqtt.stamp.SequenceBytes;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The stamps of one writer: derived from those of its input where the graph allows it ({@link RowByRow}) and the source
 * runs in the same thread, and counted otherwise. The first element shows which, as it is the same for all of a job,
 * but for what an operator writes {@link CurrentInput#aside aside}, which is counted.
 */
final class SinkStamps {
    /** The numbers continue over all checkpoints of Flink, so that one epoch holds them all. */
    private static final long EPOCH = 0;

    private final byte[] prefix;
    private final String edgeRun;
    private final boolean rowByRow;
    private Boolean derived;
    private long next;

    /**
     * @param edgeRun the run in the stamps of outputs of messages without a stamp
     * @param rowByRow true if the graph allows derived stamps
     */
    SinkStamps(Lineage lineage, String edgeRun, boolean rowByRow) {
        this.prefix = Stamp.prefix(lineage.run(), lineage.subtask(), EPOCH).getBytes(StandardCharsets.ISO_8859_1);
        this.edgeRun = edgeRun;
        this.rowByRow = rowByRow && lineage.parallelism() == 1;
        this.next = lineage.next();
    }

    /** Returns the sequence of the next message that no number of the program's own identifies. */
    byte[] next() {
        CurrentInput input = CurrentInput.ofThread();
        if (input.isAside()) {
            return SequenceBytes.counted(prefix, next++);
        }
        if (derived == null) {
            derived = rowByRow && input.present();
        }
        return derived ? input.nextSequence(edgeRun) : SequenceBytes.counted(prefix, next++);
    }

    /** Returns the sequence with a number of the program's own, of which only the highest counts. */
    byte[] numbered(long number) {
        byte[] end = (number + "." + Stamp.NEWEST).getBytes(StandardCharsets.ISO_8859_1);
        byte[] sequence = Arrays.copyOf(prefix, prefix.length + end.length);
        System.arraycopy(end, 0, sequence, prefix.length, end.length);
        return sequence;
    }

    /** The number of the next counted message. */
    long counted() {
        return next;
    }

    /** The kind of the stamps, for metrics. */
    String kind() {
        return (derived == null ? rowByRow : derived) ? "derived" : "counted";
    }
}
