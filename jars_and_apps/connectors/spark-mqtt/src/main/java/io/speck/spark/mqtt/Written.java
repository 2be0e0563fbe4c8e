package io.speck.spark.mqtt;

import io.speck.mqtt.writer.AckMetrics;
import java.util.List;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What a task has written: the driver counts it, since an executor is another process.
 *
 * @param messages number written
 * @param bytes of their payloads and topics
 * @param acks of the connection of the task's process
 * @param unsent the rows behind them, for which there was no room at the broker
 */
record Written(long messages, long bytes, AckMetrics acks, List<UnsentRow> unsent) implements WriterCommitMessage {}
