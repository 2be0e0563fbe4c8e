package io.speck.spark.mqtt;

import io.speck.mqtt.failure.OnErrorSink;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;

/**
 * The settings of a writing task.
 *
 * @param sink broker, login, and treatment of rows that cannot be written
 * @param topic of rows without one; null for none
 * @param job name in the stamps; null for none
 * @param run lineage in counted stamps
 * @param edgeRun lineage in the stamps of rows that come from messages without a stamp
 * @param mode kind of the stamps
 * @param realTime true if rows come as their messages arrive: each is sent at once
 * @param sorted true to sort the rows of a partition by their bytes before they are counted
 * @param layout indexes of the columns in a row
 */
record WriterSettings(OnErrorSink.Settings sink, String topic, String job, String run, String edgeRun,
        StampMode mode, boolean realTime, boolean sorted, RowLayout layout)
        implements Serializable {
    /** The name in the stamps, in UTF-8; null for none. */
    byte[] jobBytes() {
        return job == null ? null : job.getBytes(StandardCharsets.UTF_8);
    }

    /** The same with this mode; rows with derived stamps need no order. */
    WriterSettings with(StampMode chosen, boolean atOnce) {
        return new WriterSettings(sink, topic, job, run, edgeRun, chosen, atOnce, sorted && chosen == StampMode.COUNTED,
                layout);
    }

    /**
     * The same for a batch with this grouping ({@link StampMode#grouping}). Where messages failed, others have their places
     * in the next run, so counted rows get names of their own: a reader would take them for those that had the places.
     */
    WriterSettings grouped(long grouping) {
        String grouped = grouping == 0 ? run : run + ".f" + Long.toUnsignedString(grouping, Character.MAX_RADIX);
        return new WriterSettings(sink, topic, job, grouped, edgeRun, mode, realTime, sorted, layout);
    }
}
