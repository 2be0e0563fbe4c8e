package io.speck.mqtt.stamp;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The highest stamp seen of each stream (job, run, partition): what is not above it is a duplicate.
 *
 * <p>Writers number upwards and brokers keep the order of one publisher, so the first arrival of a stamp is always
 * above the mark, whoever else repeats it. The streams seen longest ago are forgotten beyond a bound.
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

    /** What each stream had brought, and brings, while their order does not hold; null while it does. */
    private Map<Stream, Mark> floors;
    private final Map<Stream, DedupRanges> above = new HashMap<>();

    /** Takes note of a stamp; false when it was seen before. */
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
                && above.computeIfAbsent(stream, each -> new DedupRanges()).add(stamp);
    }

    /**
     * From now on, messages may come after others that were written later: what a broker lost is sent again while its
     * writers go on. What is above the present marks then counts as seen only stamp by stamp.
     */
    public void loosen() {
        if (floors == null) {
            floors = new HashMap<>(marks);
        }
    }

    /** The order holds again. */
    public void tighten() {
        floors = null;
        above.clear();
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
        for (int left = in.readInt(); left > 0; left--) {
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
