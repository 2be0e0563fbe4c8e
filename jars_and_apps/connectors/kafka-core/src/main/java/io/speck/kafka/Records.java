package io.speck.kafka;

import io.speck.connector.RecordedBatch;
import io.speck.connector.RecordedExtents;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;

/** The records of batches in the engine's state; used by the engine's thread. */
final class Records {
    /**
     * The state to continue with after a restart.
     *
     * @param place behind the committed batches; null without a record of this session in the present topic
     * @param uncommitted the batch that the engine will request again, of the former topic if that was made anew; null for
     *         none
     * @param former the same if it is of another session
     * @param seen the stamps seen at the end of the committed batches
     * @param writers the writers that were known then
     * @param madeAnew true if the place was one in a topic that is not there any more
     */
    record Recovered(Place place, KafkaBatchRecord uncommitted, RecordedBatch former, SeenStamps seen,
            KnownWriters writers, boolean madeAnew) {
        private Recovered with(KafkaBatchRecord batch, boolean there) {
            Place in = there && madeAnew ? batch.before() : place;
            return new Recovered(in, batch, null, seen, writers, !there);
        }

        private Recovered with(RecordedBatch left) {
            return new Recovered(place, null, left, seen, writers, madeAnew);
        }
    }

    private final SourceSettings settings;
    private final RecordedExtents extents;

    Records(SourceSettings settings, BatchJournal journal) {
        this.settings = settings;
        this.extents = new RecordedExtents(journal);
    }

    /**
     * Reads the records of an earlier process; [start, end) is its uncommitted batch.
     *
     * @throws DataLossException if the batch has no record
     */
    Recovered recover(long start, long end, String topicId) throws IOException {
        Recovered found = new Recovered(null, null, null, new SeenStamps(SeenStamps.RECORDED_HASHES),
                KnownWriters.all(), false);
        for (RecordedBatch record : extents.read()) {
            KafkaBatchRecord own = own(record);
            boolean there = own != null && own.topicId().equals(topicId);
            if (record.end() <= start) {
                found = new Recovered(there ? own.after() : null, null, null, record.seen(), record.writers(),
                        own != null && !there);
            } else if (record.start() == start && record.end() == end) {
                found = own == null ? found.with(record) : found.with(own, there);
            }
        }
        if (end > start && found.uncommitted() == null && found.former() == null) {
            throw new DataLossException(settings.session() + ": there is no record of the uncommitted batch [" + start + ", "
                    + end + ") (expected the state that the session was read with, and the topic that it was read from)");
        }
        return found;
    }

    /** The record if it is one of the present session, null otherwise. */
    private KafkaBatchRecord own(RecordedBatch record) {
        return record instanceof KafkaBatchRecord batch && batch.session().equals(settings.clientId())
                && batch.topic().equals(settings.topic()) ? batch : null;
    }

    /** Records a batch, replacing an older record with its start. */
    void write(KafkaBatchRecord record) throws IOException {
        extents.write(record.start(), record.end(), record.parts(), record.encode());
    }

    RecordedExtents extents() {
        return extents;
    }
}
