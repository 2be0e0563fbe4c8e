package io.speck.connector.reader;

import java.io.IOException;
import java.util.SortedMap;

/** The store of a reader's batch records, part of the engine's own state so that both travel together. */
public interface BatchJournal {
    /** Returns all records, by the offset at which their batch starts. */
    public SortedMap<Long, byte[]> read() throws IOException;

    /** Writes a record, in place of an older one with this start; atomic even if the process dies. */
    public void write(long start, byte[] record) throws IOException;

    /** Deletes a record; does nothing if there is none. */
    public void delete(long start) throws IOException;
}
