package io.speck.kafka;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/** The records of batches in the engine's state; used by the engine's thread. */
final class Records {
    /**
     * The state to continue with after a restart.
     *
     * @param place behind the committed batches; null without a record
     * @param uncommitted the batch that the engine will request again; null for none
     * @param seen the stamps seen at the end of the committed batches
     * @param writers the writers that were known then
     * @param madeAnew true if the place was one in a topic that is not there any more
     */
    record Recovered(Place place, KafkaBatchRecord uncommitted, SeenStamps seen, KnownWriters writers, boolean madeAnew) {}

    private record Extent(long end, int parts) {}

    private final SourceSettings settings;
    private final BatchJournal journal;
    private final SortedMap<Long, Extent> records = new TreeMap<>();

    Records(SourceSettings settings, BatchJournal journal) {
        this.settings = settings;
        this.journal = journal;
    }

    /**
     * Reads the records of an earlier process; [start, end) is its uncommitted batch.
     *
     * @throws DataLossException if the batch has no record, or is of another session
     */
    Recovered recover(long start, long end, String topicId) throws IOException {
        Recovered found = new Recovered(null, null, new SeenStamps(SeenStamps.RECORDED_HASHES), KnownWriters.all(),
                false);
        for (byte[] bytes : journal.read().values()) {
            KafkaBatchRecord record = KafkaBatchRecord.decode(bytes);
            boolean session = record.session().equals(settings.clientId()) && record.topic().equals(settings.topic());
            boolean own = session && record.topicId().equals(topicId);
            if (record.end() <= start) {
                found = new Recovered(own ? record.after() : null, found.uncommitted(), record.seen(), record.writers(),
                        session && !own);
            } else if (own && record.start() == start && record.end() == end) {
                found = new Recovered(found.place(), record, found.seen(), found.writers(), found.madeAnew());
            }
            records.put(record.start(), new Extent(record.end(), record.parts()));
        }
        if (end > start && found.uncommitted() == null) {
            throw new DataLossException(settings.session() + ": there is no record of the uncommitted batch [" + start + ", "
                    + end + ") of this session (expected the state that the session was read with)");
        }
        return found;
    }

    /** Records a batch, replacing an older record with its start. */
    void write(KafkaBatchRecord record) throws IOException {
        journal.write(record.start(), record.encode());
        records.put(record.start(), new Extent(record.end(), record.parts()));
    }

    /** Returns the number of parts of the batch that starts here; 0 without a record. */
    int parts(long start) {
        Extent extent = records.get(start);
        return extent == null ? 0 : extent.parts();
    }

    /** Deletes the records of batches below the offset, except the last one, which is kept for its place and stamps. */
    void deleteCommitted(long committed) throws IOException {
        List<Long> obsolete = new ArrayList<>();
        long last = -1;
        for (Map.Entry<Long, Extent> record : records.entrySet()) {
            if (record.getValue().end() > committed) {
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
