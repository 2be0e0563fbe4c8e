package io.speck.mqtt;

import io.speck.connector.reader.BatchJournal;
import java.util.SortedMap;
import java.util.TreeMap;

/** Holds batch records beyond the life of a reader, for one test. */
public final class MemoryJournal implements BatchJournal {
    public final SortedMap<Long, byte[]> records = new TreeMap<>();

    @Override
    public SortedMap<Long, byte[]> read() {
        return new TreeMap<>(records);
    }

    @Override
    public void write(long start, byte[] record) {
        records.put(start, record);
    }

    @Override
    public void delete(long start) {
        records.remove(start);
    }
}
