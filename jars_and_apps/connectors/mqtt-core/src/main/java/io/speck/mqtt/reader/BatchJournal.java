package io.speck.mqtt.reader;

import java.io.IOException;
import java.util.SortedMap;

/** Where a reader keeps a record of each batch: with the engine's own state, so that both travel together. */
public interface BatchJournal {
    /** All records, by the offset at which their batch starts. */
    SortedMap<Long, byte[]> read() throws IOException;

    /** Keeps a record, in place of an older one with this start; whole or not at all, whenever the process dies. */
    void write(long start, byte[] record) throws IOException;

    /** Forgets a record; one that is not there is forgotten already. */
    void delete(long start) throws IOException;
}
