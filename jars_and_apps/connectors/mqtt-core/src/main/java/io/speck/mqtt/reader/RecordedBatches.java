package io.speck.mqtt.reader;

import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Consumer;

/** The records of batches that may have to be returned or recognised again; used by the engine's thread. */
final class RecordedBatches {
    /**
     * The state to continue with after a restart.
     *
     * @param committed messages of committed batches, in order, whose acknowledgements may not have arrived
     * @param awaited messages of the uncommitted batch, in order; null if there is no such batch, or its record is lost
     * @param seen the stamps seen at the end of both
     * @param writers the writers that were known then
     * @param sessionExpected true if the broker must have the session
     */
    record Recovered(List<Message> committed, List<Message> awaited, SeenStamps seen, KnownWriters writers,
            boolean sessionExpected) {}

    private record Extent(long end, int partitions) {}

    private final SourceSettings settings;
    private final BatchJournal journal;
    private final Consumer<String> lossReport;
    private final SortedMap<Long, Extent> records = new TreeMap<>();

    /** @param lossReport called when messages are lost for good; throws if that is to be an error */
    RecordedBatches(SourceSettings settings, BatchJournal journal, Consumer<String> lossReport) {
        this.settings = settings;
        this.journal = journal;
        this.lossReport = lossReport;
    }

    /** Reads the records of an earlier process; [start, end) is its uncommitted batch. */
    Recovered recover(long start, long end) throws IOException {
        BatchRecord uncommitted = null;
        SeenStamps seen = new SeenStamps(SeenStamps.RECORDED_HASHES);
        KnownWriters writers = KnownWriters.all();
        List<Message> committed = new ArrayList<>();
        boolean sessionExpected = false;
        for (byte[] bytes : journal.read().values()) {
            BatchRecord record = BatchRecord.decode(bytes);
            if (record.end() <= start) {
                sessionExpected = addCommitted(record, committed);
                seen = record.seen();
                writers = record.writers();
            } else if (record.start() == start && record.end() == end) {
                uncommitted = record;
            }
            records.put(record.start(), new Extent(record.end(), record.partitions()));
        }
        List<Message> awaited = end > start ? awaited(uncommitted, start, end) : null;
        if (awaited != null) { // the messages of a batch that is given up were not seen, should they come again
            seen = uncommitted.seen();
            writers = uncommitted.writers();
        }
        return new Recovered(committed, awaited, seen, writers, sessionExpected || awaited != null);
    }

    /**
     * Adds the messages of a committed batch; drops all if the batch is of another client, whose messages never return.
     */
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
    void write(long start, long end, int partitions, List<Message> messages, SeenStamps seen, KnownWriters writers)
            throws IOException {
        BatchRecord record =
                new BatchRecord(settings.clientId(), broker(), start, end, partitions, messages, seen, writers);
        journal.write(start, record.encode());
        records.put(start, new Extent(end, partitions));
    }

    /** Returns the number of parts of the batch that starts here; 0 without a record. */
    int partitions(long start) {
        Extent extent = records.get(start);
        return extent == null ? 0 : extent.partitions();
    }

    /** Deletes confirmed records, except the last one, which is kept for its stamps. */
    void deleteConfirmed(long confirmed) throws IOException {
        List<Long> obsolete = new ArrayList<>();
        long last = -1;
        for (Map.Entry<Long, Extent> record : records.entrySet()) {
            if (record.getValue().end() > confirmed) {
                break;
            }
            if (last >= 0) {
                obsolete.add(last);
            }
            last = record.getKey();
        }
        for (long start : obsolete) {
            journal.delete(start);
            records.remove(start);
        }
    }
}
