package io.speck.mqtt.reader;

import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.DedupWatermarks;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Consumer;

/** The records of the batches that may have to be given out, or recognised, again; used by the engine's thread. */
final class RecordedBatches {
    /**
     * What the records say after a restart.
     *
     * @param committed messages of committed batches, in order, whose acknowledgements may not have arrived
     * @param awaited those of the uncommitted batch, in order; null when there is no such batch, or its record is lost
     * @param marks the highest stamps at the end of both
     * @param sessionExpected whether the broker must have the session
     */
    record Recovered(List<Message> committed, List<Message> awaited, DedupWatermarks marks, boolean sessionExpected) {}

    private record Written(long end, int partitions) {}

    private final SourceSettings settings;
    private final BatchJournal journal;
    private final Consumer<String> lossReport;
    private final SortedMap<Long, Written> records = new TreeMap<>();

    /** @param lossReport is told when messages are gone for good; throws if that is to be an error */
    RecordedBatches(SourceSettings settings, BatchJournal journal, Consumer<String> lossReport) {
        this.settings = settings;
        this.journal = journal;
        this.lossReport = lossReport;
    }

    /** Reads what an earlier process left; [start, end) is its uncommitted batch. */
    Recovered recover(long start, long end) throws IOException {
        BatchRecord uncommitted = null;
        DedupWatermarks marks = new DedupWatermarks();
        List<Message> committed = new ArrayList<>();
        boolean sessionExpected = false;
        for (byte[] bytes : journal.read().values()) {
            BatchRecord record = BatchRecord.decode(bytes);
            if (record.end() <= start) {
                marks = record.marks();
                sessionExpected = addCommitted(record, committed);
            } else if (record.start() == start && record.end() == end) {
                uncommitted = record;
                marks = record.marks();
            }
            records.put(record.start(), new Written(record.end(), record.partitions()));
        }
        List<Message> awaited = end > start ? awaited(uncommitted, start, end) : null;
        return new Recovered(committed, awaited, marks, sessionExpected || awaited != null);
    }

    /** Of another client than the present one, nothing will come again. */
    private boolean addCommitted(BatchRecord record, List<Message> committed) {
        if (!record.clientId().equals(settings.clientId())) {
            committed.clear();
            return false;
        }
        long offset = record.start();
        for (Message message : record.messages()) {
            message.offset = offset;
            offset += message.duplicate ? 0 : 1;
            committed.add(message);
        }
        return record.broker().equals(broker());
    }

    private String broker() {
        return settings.login().address().toString();
    }

    private List<Message> awaited(BatchRecord record, long start, long end) {
        if (record == null) {
            lossReport.accept("there is no record of the uncommitted batch [" + start + ", " + end + ")");
            return null;
        }
        if (!record.clientId().equals(settings.clientId())) {
            lossReport.accept("the uncommitted batch [" + start + ", " + end + ") is of client '" + record.clientId()
                    + "' at broker " + record.broker());
            return null;
        }
        return record.messages();
    }

    /** Records a batch, in place of an older record with its start. */
    void write(long start, long end, int partitions, List<Message> messages, DedupWatermarks marks) throws IOException {
        BatchRecord record =
                new BatchRecord(settings.clientId(), broker(), start, end, partitions, messages, marks);
        journal.write(start, record.encode());
        records.put(start, new Written(end, partitions));
    }

    /** Into how many parts the batch that starts here was split; 0 when it has no record. */
    int partitions(long start) {
        Written written = records.get(start);
        return written == null ? 0 : written.partitions();
    }

    /** The last committed record stays, for its marks, and those whose acknowledgements are not certain. */
    void forget(long confirmed) throws IOException {
        List<Long> done = new ArrayList<>();
        long last = -1;
        for (Map.Entry<Long, Written> record : records.entrySet()) {
            if (record.getValue().end() > confirmed) {
                break;
            }
            if (last >= 0) {
                done.add(last);
            }
            last = record.getKey();
        }
        for (long start : done) {
            journal.delete(start);
            records.remove(start);
        }
    }
}
