package io.speck.mqtt.reader;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/** The records of batches that may have to be returned or recognised again; used by the engine's thread. */
final class RecordedBatches {
    /**
     * The state to continue with after a restart.
     *
     * @param committed messages of committed batches, in order, whose acknowledgements may not have arrived
     * @param awaited messages of the uncommitted batch, in order; null if there is no such batch, or its record is lost
     * @param before the stamps seen at the end of the committed batches
     * @param seen the stamps seen at the end of the uncommitted batch
     * @param writers the writers that were known then
     * @param sessionExpected true if the broker must have the session
     * @param former the record of the uncommitted batch if it is of another session; null otherwise
     */
    record Recovered(List<Message> committed, List<Message> awaited, SeenStamps before, SeenStamps seen,
            KnownWriters writers, boolean sessionExpected, BatchRecord former) {}

    private record Extent(long end, int partitions) {}

    private final SourceSettings settings;
    private final BatchJournal journal;
    private final Losses losses;
    private final SortedMap<Long, Extent> records = new TreeMap<>();

    RecordedBatches(SourceSettings settings, BatchJournal journal, Losses losses) {
        this.settings = settings;
        this.journal = journal;
        this.losses = losses;
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
        if (end > start && uncommitted == null) {
            losses.report(Losses.BATCH, end - start,
                    "there is no record of the uncommitted batch [" + start + ", " + end + ")");
        }
        boolean own = uncommitted != null && isOwn(uncommitted);
        SeenStamps before = seen;
        if (own) { // the messages of a batch that is given up were not seen, should they come again
            seen = uncommitted.seen();
            writers = uncommitted.writers();
        }
        return new Recovered(committed, own ? uncommitted.messages() : null, before, seen, writers,
                sessionExpected || own, own ? null : uncommitted);
    }

    /**
     * Adds the messages of a committed batch; drops all if the batch is of another client, whose messages never return.
     */
    private boolean addCommitted(BatchRecord record, List<Message> committed) {
        if (!isOwn(record)) {
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

    /** True for a batch of the present session; session and broker change together. */
    private boolean isOwn(BatchRecord record) {
        return record.clientId().equals(settings.clientId());
    }

    private String broker() {
        return settings.login().address().toString();
    }

    /** Records a batch, replacing an older record with its start. */
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
