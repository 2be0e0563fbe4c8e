package io.speck.connector;

import io.speck.connector.reader.BatchJournal;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/** The records of batches in the engine's journal, and the extent of each; used by the engine's thread. */
public final class RecordedExtents {
    private record Extent(long end, int parts) {}

    private final BatchJournal journal;
    private final SortedMap<Long, Extent> extents = new TreeMap<>();

    public RecordedExtents(BatchJournal journal) {
        this.journal = journal;
    }

    /** Reads the records of an earlier process, in order. */
    public List<RecordedBatch> read() throws IOException {
        List<RecordedBatch> found = new ArrayList<>();
        for (byte[] bytes : journal.read().values()) {
            RecordedBatch record = Brokers.recorded(bytes);
            extents.put(record.start(), new Extent(record.end(), record.parts()));
            found.add(record);
        }
        return found;
    }

    /** Writes the record of a batch, replacing an older one with its start. */
    public void write(long start, long end, int parts, byte[] record) throws IOException {
        journal.write(start, record);
        extents.put(start, new Extent(end, parts));
    }

    /** Returns the number of parts of the batch that starts here; 0 without a record. */
    public int parts(long start) {
        Extent extent = extents.get(start);
        return extent == null ? 0 : extent.parts();
    }

    /** Deletes the records of batches up to an offset, except the last one, which is kept for its stamps and its place. */
    public void deleteUntil(long offset) throws IOException {
        List<Long> obsolete = new ArrayList<>();
        long last = -1;
        for (Map.Entry<Long, Extent> record : extents.entrySet()) {
            if (record.getValue().end() > offset) {
                break;
            }
            if (last >= 0) {
                obsolete.add(last);
            }
            last = record.getKey();
        }
        for (long start : obsolete) {
            journal.delete(start);
            extents.remove(start);
        }
    }
}
