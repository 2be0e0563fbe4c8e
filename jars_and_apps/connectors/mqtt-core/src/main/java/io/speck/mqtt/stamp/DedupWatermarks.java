package io.speck.mqtt.stamp;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The highest stamp seen of each stream (job, run, partition): a message at or below it is a duplicate.
 *
 * <p>Writers number upwards and brokers keep the order of one publisher, so the first arrival of a stamp is always
 * above the mark, even if several writers repeat it. Beyond a bound the least recently seen streams are dropped.
 */
public final class DedupWatermarks {
    static final int MAXIMUM_STREAMS = 4096;

    private record Stream(String job, String run, int partition) {}

    private record Mark(long epoch, long index) {
        boolean covers(Stamp stamp) {
            return stamp.epoch() < epoch || stamp.epoch() == epoch && stamp.index() <= index;
        }
    }

    private final Map<Stream, Mark> marks = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Stream, Mark> eldest) {
            return size() > MAXIMUM_STREAMS;
        }
    };

    /** The marks at the start of reordering; null while messages arrive in order. */
    private Map<Stream, Mark> floors;
    /** The stamps above the floor that each stream has brought since. */
    private final Map<Stream, DedupRanges> seenAboveFloor = new HashMap<>();

    /** Records a stamp; false if it was seen before. */
    public boolean advance(Stamp stamp) {
        Stream stream = new Stream(stamp.job(), stamp.run(), stamp.partition());
        Mark mark = marks.get(stream);
        boolean higher = mark == null || !mark.covers(stamp);
        if (higher) {
            marks.put(stream, new Mark(stamp.epoch(), stamp.index()));
        }
        if (floors == null) {
            return higher;
        }
        Mark floor = floors.get(stream);
        return (floor == null || !floor.covers(stamp))
                && seenAboveFloor.computeIfAbsent(stream, each -> new DedupRanges()).add(stamp);
    }

    /**
     * Allows messages to arrive after others that were written later: writers send again the messages that a broker
     * lost while they continue to write. Stamps above the present marks then count as seen one by one.
     */
    public void beginReordering() {
        if (floors == null) {
            floors = new HashMap<>(marks);
        }
    }

    /** Expects messages in order again. */
    public void endReordering() {
        floors = null;
        seenAboveFloor.clear();
    }

    public DedupWatermarks copy() {
        DedupWatermarks copy = new DedupWatermarks();
        copy.marks.putAll(marks);
        return copy;
    }

    public int size() {
        return marks.size();
    }

    public void write(DataOutputStream out) throws IOException {
        out.writeInt(marks.size());
        for (Map.Entry<Stream, Mark> entry : marks.entrySet()) {
            out.writeUTF(entry.getKey().job());
            out.writeUTF(entry.getKey().run());
            out.writeInt(entry.getKey().partition());
            out.writeLong(entry.getValue().epoch());
            out.writeLong(entry.getValue().index());
        }
    }

    public static DedupWatermarks read(DataInputStream in) throws IOException {
        DedupWatermarks read = new DedupWatermarks();
        for (int remaining = in.readInt(); remaining > 0; remaining--) {
            Stream stream = new Stream(in.readUTF(), in.readUTF(), in.readInt());
            read.marks.put(stream, new Mark(in.readLong(), in.readLong()));
        }
        return read;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof DedupWatermarks that && marks.equals(that.marks);
    }

    @Override
    public int hashCode() {
        return marks.hashCode();
    }
}
