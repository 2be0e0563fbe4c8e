package io.speck.spark.mqtt;

import io.speck.connector.reader.Message;
import io.speck.mqtt.Utf8;
import io.speck.sql.SqlProgram;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.apache.spark.sql.connector.read.InputPartition;

/** Divides the messages of a micro-batch into the partitions of its tasks. */
final class BatchPartitions {
    private static final int ROWS_WORTH_A_PARTITION = 500;

    private final ReadOptions options;
    private final int defaultPartitions;
    private final SqlProgram program;
    private final FailedMessages failed;
    private final BooleanSupplier isText;
    /** Of the batch divided last. */
    private long grouping;

    /**
     * @param defaultPartitions the most partitions of a batch, where the options do not set the number
     * @param program null for a query that is no SQL job
     * @param failed null for a query that fails with its first error
     * @param isText true if the query uses contents as text
     */
    BatchPartitions(ReadOptions options, int defaultPartitions, SqlProgram program, FailedMessages failed,
            BooleanSupplier isText) {
        this.options = options;
        this.defaultPartitions = defaultPartitions;
        this.program = program;
        this.failed = failed;
        this.isText = isText;
    }

    /** Returns the number of partitions for a batch of this number of rows. */
    int number(long rows) {
        int limit = options.partitions() > 0 ? options.partitions() : defaultPartitions;
        long worthwhile = options.partitions() > 0
                ? rows : (rows + ROWS_WORTH_A_PARTITION - 1) / ROWS_WORTH_A_PARTITION;
        return (int) Math.max(1, Math.min(limit, worthwhile));
    }

    /** Returns the partitions of a batch without a message. */
    InputPartition[] none() {
        grouping = 0;
        return new InputPartition[0];
    }

    /** Divides messages into this number of partitions, and further ones for messages on which tasks have failed. */
    InputPartition[] divide(List<Message> messages, int partitions) throws IOException, InterruptedException {
        grouping = 0;
        if (failed != null) {
            return splitGroups(messages, partitions);
        }
        List<Message> checked = isText.getAsBoolean() ? TextMessages.checked(messages) : messages;
        return split(checked, partitions, Message::payload, false);
    }

    /**
     * Names the grouping of the batch divided last, which decides on the partition and the position of its rows; 0 if it is
     * that of a batch on which no task has failed.
     */
    long grouping() {
        return grouping;
    }

    /** Returns the reason to leave a message out before any task has failed on it; null for none. */
    String fault(byte[] payload) {
        String fault = isText.getAsBoolean() ? Utf8.fault(payload) : null;
        return fault == null ? null : TextMessages.reason(fault);
    }

    /** Splits the messages on which no task has failed, and makes a partition of each other group. */
    private InputPartition[] splitGroups(List<Message> messages, int partitions) throws IOException, InterruptedException {
        DecodedMessages decoded = program == null ? null : new DecodedMessages(program);
        Function<Message, byte[]> content = options.columns().decoded() ? decoded::row : Message::payload;
        List<InputPartition> parts = new ArrayList<>();
        FailedMessages.Grouping found = failed.group(messages,
                each -> decoded == null ? fault(each.payload()) : decoded.fault(each));
        grouping = found.mark();
        for (FailedMessages.Group group : found.groups()) {
            if (group.sound()) {
                parts.addAll(List.of(split(group.messages(), partitions, content, group.watched())));
            } else {
                parts.add(Rows.pack(group.messages(), options.columns(), content, group.watched(), group.behind()));
            }
        }
        return parts.toArray(new InputPartition[0]);
    }

    private InputPartition[] split(List<Message> messages, int partitions, Function<Message, byte[]> content,
            boolean watched) {
        InputPartition[] parts = new InputPartition[partitions];
        for (int i = 0; i < partitions; i++) {
            int from = (int) ((long) messages.size() * i / partitions);
            int to = (int) ((long) messages.size() * (i + 1) / partitions);
            parts[i] = Rows.pack(messages.subList(from, to), options.columns(), content, watched, false);
        }
        return parts;
    }
}
