package io.speck.mqtt.stamp;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The stamps that a reader has seen, by which it recognises messages that are written again, in whatever order they come.
 *
 * <p>A stream is a (job, run, partition, path); its stamps are kept as ranges. Memory is bounded: beyond
 * {@link #MAXIMUM_STREAMS} the least recently used streams are forgotten, beyond {@link #MAXIMUM_RANGES} the lowest
 * ranges of the stream that has most. What is forgotten counts as new, so that a repetition of it is a duplicate; never
 * is a message taken for a repetition that is none, unless it has the very stamp of another. The hash of the content and
 * the fingerprint beside each of the newest stamps show that too.
 */
public final class SeenStamps {
    public static final int MAXIMUM_STREAMS = 4096;
    public static final int MAXIMUM_RANGES = 65_536;
    public static final int MAXIMUM_HASHES = 16_384;
    /** Hashes that are written with the state. */
    public static final int RECORDED_HASHES = 4096;
    private static final int PART_DROPPED = 8;
    private static final int FAR = 1;
    private static final int FINGERPRINT = 2;
    private static final int FLAG_BITS = 2;

    /** The answer to a stamp and the content under it. */
    public enum Verdict {
        /** The stamp was not seen before, or was forgotten. */
        NEW,
        /** The stamp was seen, with the same content as far as it is known. */
        REPETITION,
        /** The derived stamp was seen with other contents, and with no other fingerprint as far as it is known. */
        CHANGED,
        /** The stamp was seen, and all messages known under it are other ones. */
        COLLISION
    }

    private record Name(String job, String run, int partition, String path) {
        boolean names(Stamp stamp) {
            return partition == stamp.partition() && job.equals(stamp.job()) && run.equals(stamp.run())
                    && path.equals(stamp.path());
        }
    }

    /** A stream; its identity spreads the entries of different streams in tables. */
    record Stream(long identity, StampRanges ranges) {
        @Override
        public boolean equals(Object other) {
            return this == other;
        }

        @Override
        public int hashCode() {
            return Long.hashCode(identity);
        }
    }

    private final Map<Name, Stream> streams = new LinkedHashMap<>(16, 0.75f, true);
    private final StampHashes hashes;
    private int rangeCount;
    private Name lastName;
    private Stream last;

    /** @param mostHashes largest number of hashes, a power of two from 16 on */
    public SeenStamps(int mostHashes) {
        this.hashes = new StampHashes(mostHashes);
    }

    /**
     * Records a stamp.
     *
     * @param hash hash of the content
     */
    public Verdict add(Stamp stamp, int hash) {
        Stream stream = stream(stamp);
        if (stamp.replaces()) {
            return stream.ranges.raise(stamp.epoch(), stamp.index()) ? Verdict.NEW : Verdict.REPETITION;
        }
        int before = stream.ranges.size();
        boolean fresh = stream.ranges.add(stamp.epoch(), stamp.index());
        rangeCount += stream.ranges.size() - before;
        if (rangeCount > MAXIMUM_RANGES) {
            dropLowest();
        }
        Verdict verdict = fresh ? Verdict.NEW : switch (hashes.find(stream, stamp, hash)) {
            case NOTHING, SAME -> Verdict.REPETITION;
            case RELATED -> Verdict.CHANGED;
            case OTHER -> Verdict.COLLISION;
        };
        if (verdict != Verdict.REPETITION) {
            hashes.add(new StampHashes.Entry(stream, stamp.epoch(), stamp.index(), hash, stamp.fingerprint()));
        }
        return verdict;
    }

    private Stream stream(Stamp stamp) {
        if (lastName == null || !lastName.names(stamp)) {
            lastName = new Name(stamp.job(), stamp.run(), stamp.partition(), stamp.path());
            last = streams.get(lastName);
            if (last == null) {
                last = put(lastName, new StampRanges());
            }
        }
        return last;
    }

    private Stream put(Name name, StampRanges ranges) {
        Stream stream = new Stream(31L * name.hashCode() * 0x94d049bb133111ebL, ranges);
        streams.put(name, stream);
        rangeCount += ranges.size();
        if (streams.size() > MAXIMUM_STREAMS) {
            Name eldest = streams.keySet().iterator().next();
            rangeCount -= streams.remove(eldest).ranges.size();
        }
        return stream;
    }

    private void dropLowest() {
        StampRanges largest = last.ranges;
        for (Stream stream : streams.values()) {
            largest = stream.ranges.size() > largest.size() ? stream.ranges : largest;
        }
        int count = Math.max(1, largest.size() / PART_DROPPED);
        largest.dropLowest(count);
        rangeCount -= count;
    }

    /** The number of streams of which stamps are known. */
    public int streams() {
        return streams.size();
    }

    public int ranges() {
        return rangeCount;
    }

    /** Returns a copy with the newest hashes only, as many as are written with the state. */
    public SeenStamps copy(int mostHashes) {
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            write(new DataOutputStream(bytes));
            return read(new DataInputStream(new ByteArrayInputStream(bytes.toByteArray())), mostHashes, true);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Writes streams, ranges and the newest hashes. */
    public void write(DataOutputStream out) throws IOException {
        List<Stream> numbered = new ArrayList<>(streams.values());
        Varint.write(out, numbered.size());
        for (Map.Entry<Name, Stream> entry : streams.entrySet()) {
            Name name = entry.getKey();
            out.writeUTF(name.job);
            out.writeUTF(name.run);
            out.writeInt(name.partition);
            out.writeUTF(name.path);
            entry.getValue().ranges.write(out);
        }
        writeHashes(out, numbered);
    }

    /**
     * Writes the newest hashes. Of each: the number of its stream, with two lowest bits; epoch and index if the first bit
     * says so, otherwise the distance from the entry before of that stream; the hash; the fingerprint if the second bit
     * says so.
     */
    private void writeHashes(DataOutputStream out, List<Stream> numbered) throws IOException {
        Map<Stream, Integer> numbers = new HashMap<>();
        numbered.forEach(stream -> numbers.put(stream, numbers.size()));
        List<StampHashes.Entry> entries = new ArrayList<>(hashes.newest(RECORDED_HASHES));
        entries.removeIf(entry -> !numbers.containsKey(entry.stream())); // of a stream that was forgotten since
        StampHashes.Entry[] before = new StampHashes.Entry[numbered.size()];
        Varint.write(out, entries.size());
        for (StampHashes.Entry entry : entries) {
            int number = numbers.get(entry.stream());
            StampHashes.Entry former = before[number];
            boolean near = former != null && former.epoch() == entry.epoch() && former.index() <= entry.index();
            Varint.write(out, (long) number << FLAG_BITS | (near ? 0 : FAR) | (entry.hasFingerprint() ? FINGERPRINT : 0));
            if (!near) {
                Varint.write(out, entry.epoch());
            }
            Varint.write(out, near ? entry.index() - former.index() : entry.index());
            out.writeInt(entry.hash());
            if (entry.hasFingerprint()) {
                out.writeInt((int) entry.fingerprint());
            }
            before[number] = entry;
        }
    }

    /**
     * Reads what {@link #write} wrote.
     *
     * @param mostHashes the number of hashes to keep from now on, a power of two from 16 on
     * @param fingerprints false for the form before fingerprints, with one bit beside the number of a stream
     */
    public static SeenStamps read(DataInputStream in, int mostHashes, boolean fingerprints) throws IOException {
        SeenStamps read = new SeenStamps(mostHashes);
        List<Stream> numbered = new ArrayList<>();
        for (long remaining = Varint.read(in); remaining > 0; remaining--) {
            Name name = new Name(in.readUTF(), in.readUTF(), in.readInt(), in.readUTF());
            numbered.add(read.put(name, StampRanges.read(in)));
        }
        read.readHashes(in, numbered, fingerprints);
        return read;
    }

    private void readHashes(DataInputStream in, List<Stream> numbered, boolean fingerprints) throws IOException {
        long[] epochs = new long[numbered.size()];
        long[] indexes = new long[numbered.size()];
        for (long remaining = Varint.read(in); remaining > 0; remaining--) {
            long code = Varint.read(in);
            int number = (int) (code >>> (fingerprints ? FLAG_BITS : 1));
            boolean near = (code & FAR) == 0;
            epochs[number] = near ? epochs[number] : Varint.read(in);
            indexes[number] = (near ? indexes[number] : 0) + Varint.read(in);
            int hash = in.readInt();
            boolean known = fingerprints && (code & FINGERPRINT) != 0;
            long fingerprint = known ? Integer.toUnsignedLong(in.readInt()) : Stamp.NO_FINGERPRINT;
            hashes.add(new StampHashes.Entry(numbered.get(number), epochs[number], indexes[number], hash, fingerprint));
        }
    }

    /** Reads the form of version 1, the highest stamp of each stream: all up to it counts as seen. */
    public static SeenStamps readHighest(DataInputStream in, int mostHashes) throws IOException {
        SeenStamps read = new SeenStamps(mostHashes);
        for (int remaining = in.readInt(); remaining > 0; remaining--) {
            Name name = new Name(in.readUTF(), in.readUTF(), in.readInt(), "");
            read.put(name, new StampRanges(in.readLong(), in.readLong()));
        }
        return read;
    }
}
