package io.speck.spark.mqtt;

import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.RefusedMessage;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.failure.OnErrorSink;
import java.util.List;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What a task has written: the driver counts it, since an executor is another process.
 *
 * @param messages number written
 * @param bytes of their payloads and topics
 * @param acks of the connection of the task's process
 * @param unsent the rows behind them, for which there was no room at the broker, or which found it away
 * @param unparked rows that cannot be written, and are to be parked
 * @param skipped number left out, since they cannot be written
 * @param parked number left out and parked
 */
record Written(long messages, long bytes, AckMetrics acks, List<UnsentMessage> unsent, List<RefusedMessage> unparked,
        long skipped, long parked) implements WriterCommitMessage {
    /** @param sent number handed to the sink, with those that it left out */
    static Written by(OnErrorSink sink, long sent, long bytes, List<UnsentMessage> unsent) {
        List<RefusedMessage> unparked = sink.takeUnparked();
        long leftOut = sink.skipped() + sink.parked() + unparked.size();
        return new Written(sent - leftOut, bytes, sink.acks(), unsent, unparked, sink.skipped(), sink.parked());
    }
}
