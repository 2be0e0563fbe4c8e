package io.speck.spark.mqtt;

import io.speck.mqtt.SinkSettings;
import java.io.Serializable;

/**
 * The settings of a writing task.
 *
 * @param topic of rows without one; null for none
 * @param job name in the stamps; null for none
 * @param run lineage in the stamps
 * @param sorted true to sort the rows of a partition by their bytes before they are numbered
 * @param layout indexes of the columns in a row
 */
record WriterSettings(SinkSettings sink, String topic, String job, String run, boolean sorted, RowLayout layout)
        implements Serializable {}
