package io.speck.spark.mqtt;

import io.speck.mqtt.writer.AckMetrics;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What a task has written: the driver counts it, since an executor is another process.
 *
 * @param bytes of payloads and topics
 * @param acks of the connection of the task's process
 */
record Written(long messages, long bytes, AckMetrics acks) implements WriterCommitMessage {}
