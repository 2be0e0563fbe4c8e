package io.speck.spark.mqtt;

import io.speck.mqtt.SinkSettings;
import java.io.Serializable;

/**
 * What a writing task needs.
 *
 * @param topic for rows without one; null for none
 * @param job name in the stamps; null for none
 * @param run lineage in the stamps
 * @param sorted whether the rows of a partition are sorted by their bytes before they are numbered
 * @param layout where in a row the columns are
 */
record WriterSettings(SinkSettings sink, String topic, String job, String run, boolean sorted, RowLayout layout)
        implements Serializable {}
