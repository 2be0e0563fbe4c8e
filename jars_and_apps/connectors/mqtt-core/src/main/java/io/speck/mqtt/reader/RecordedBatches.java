package io.speck.mqtt.reader;

import io.speck.connector.RecordedBatch;
import io.speck.connector.RecordedExtents;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

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
            KnownWriters writers, boolean sessionExpected, RecordedBatch former) {}

    private final SourceSettings settings;
    private final BatchJournal journal;
    private final Losses losses;
    private final RecordedExtents extents;

    RecordedBatches(SourceSettings settings, BatchJournal journal, Losses losses) {
        this.settings = settings;
        this.journal = journal;
        this.losses = losses;
        this.extents = new RecordedExtents(journal);
    }

    /** Reads the records of an earlier process; [start, end) is its uncommitted batch. */
    Recovered recover(long start, long end) throws IOException {
        RecordedBatch uncommitted = null;
        SeenStamps seen = new SeenStamps(SeenStamps.RECORDED_HASHES);
        KnownWriters writers = KnownWriters.all();
        List<Message> committed = new ArrayList<>();
        boolean sessionExpected = false;
        for (RecordedBatch record : extents.read()) {
            if (record.end() <= start) {
                sessionExpected = addCommitted(record, committed);
                seen = record.seen();
                writers = record.writers();
            } else if (record.start() == start && record.end() == end) {
                uncommitted = record;
            }
        }
        if (end > start && uncommitted == null) {
            losses.report(Losses.BATCH, end - start,
                    "there is no record of the uncommitted batch [" + start + ", " + end + ")");
        }
        BatchRecord own = own(uncommitted);
        SeenStamps before = seen;
        if (own != null) { // the messages of a batch that is given up were not seen, should they come again
            seen = own.seen();
            writers = own.writers();
        }
        return new Recovered(committed, own == null ? null : own.messages(), before, seen, writers,
                sessionExpected || own != null, own == null ? uncommitted : null);
    }

    /**
     * Adds the messages of a committed batch; drops all if the batch is of another client, whose messages never return.
     */
    private boolean addCommitted(RecordedBatch record, List<Message> committed) {
        BatchRecord own = own(record);
        if (own == null) {
            committed.clear();
            return false;
        }
        long offset = own.start();
        for (Message message : own.messages()) {
            message.offset = offset;
            offset += message.duplicate ? 0 : 1;
            committed.add(message);
        }
        return record.broker().equals(broker());
    }

    /** The record if it is one of the present session, null otherwise; session and broker change together. */
    private BatchRecord own(RecordedBatch record) {
        return record instanceof BatchRecord batch && batch.clientId().equals(settings.clientId()) ? batch : null;
    }

    private String broker() {
        return settings.login().address().toString();
    }

    /** Records a batch, replacing an older record with its start. */
    void write(long start, long end, int partitions, List<Message> messages, SeenStamps seen, KnownWriters writers)
            throws IOException {
        BatchRecord record =
                new BatchRecord(settings.clientId(), broker(), start, end, partitions, messages, seen, writers);
        extents.write(start, end, partitions, record.encode());
    }

    RecordedExtents extents() {
        return extents;
    }
}
