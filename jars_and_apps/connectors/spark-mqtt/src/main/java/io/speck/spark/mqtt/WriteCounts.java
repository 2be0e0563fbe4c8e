package io.speck.spark.mqtt;

import io.speck.connector.writer.AckMetrics;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The counts of a sink since its query started, and the figures of its last batch that wrote anything. */
final class WriteCounts {
    private StampMode mode;
    private long messages;
    private long bytes;
    private long skipped;
    private long parked;
    private List<AckMetrics> acks = List.of();

    /** @param present of the batch that begins; null without stamps */
    synchronized void mode(StampMode present) {
        mode = present;
    }

    /** Adds what the tasks of a batch have written. */
    synchronized void add(WriterCommitMessage[] tasks) {
        List<AckMetrics> connected = new ArrayList<>();
        for (WriterCommitMessage task : tasks) {
            if (task instanceof Written written) {
                skipped += written.skipped();
                parked += written.parked();
                messages += written.messages();
                bytes += written.bytes();
                if (written.messages() > 0) {
                    connected.add(written.acks());
                }
            }
        }
        acks = connected.isEmpty() ? acks : connected;
    }

    /** The least time over all tasks, and the median and the share of the task with the slowest broker connection. */
    synchronized Map<String, String> values() {
        Map<String, String> values = new HashMap<>();
        values.put("messages", Long.toString(messages));
        values.put("bytes", Long.toString(bytes));
        values.put("skippedResults", Long.toString(skipped));
        values.put("parkedResults", Long.toString(parked));
        if (mode != null) {
            values.put("stamps", mode.toString());
        }
        if (!acks.isEmpty()) {
            values.put("broker", acks.get(0).broker());
            values.put("ackMillisMin", text(acks.stream().mapToDouble(AckMetrics::leastMillis).min().orElse(-1)));
            values.put("ackMillis", text(acks.stream().mapToDouble(AckMetrics::medianMillis).max().orElse(-1)));
            values.put("windowFull", text(acks.stream().mapToDouble(AckMetrics::windowFull).max().orElse(0)));
        }
        return values;
    }

    private static String text(double value) {
        return Double.toString(Math.round(value * 1000) / 1000.0);
    }
}
