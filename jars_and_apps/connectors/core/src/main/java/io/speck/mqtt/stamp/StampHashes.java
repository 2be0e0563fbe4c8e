package io.speck.mqtt.stamp;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A hash of the content beside each of the newest stamps, the oldest overwritten first.
 *
 * <p>The entries are a ring of parallel arrays; a table of chains through them finds a stamp's entries. A stamp has
 * several if messages with other contents came under it.
 */
final class StampHashes {
    /**
     * Entries with this stamp: none, one with the same content, else one that may come of the same message, else only ones
     * of other messages.
     */
    enum Found { NOTHING, SAME, RELATED, OTHER }

    private static final int NONE = -1;
    private static final int FIRST_CAPACITY = 16;

    private final int maximum;
    private SeenStamps.Stream[] streams = new SeenStamps.Stream[FIRST_CAPACITY];
    private long[] epochs = new long[FIRST_CAPACITY];
    private long[] indexes = new long[FIRST_CAPACITY];
    private int[] hashes = new int[FIRST_CAPACITY];
    private long[] fingerprints = new long[FIRST_CAPACITY];
    private int[] nextInChain = new int[FIRST_CAPACITY];
    private int[] chains = emptyChains(FIRST_CAPACITY);
    /** The slot of the next entry. */
    private int next;
    private int size;

    /** @param maximum largest number of entries, a power of two from 16 on */
    StampHashes(int maximum) {
        this.maximum = maximum;
    }

    private static int[] emptyChains(int capacity) {
        int[] chains = new int[2 * capacity];
        Arrays.fill(chains, NONE);
        return chains;
    }

    Found find(SeenStamps.Stream stream, Stamp stamp, int hash) {
        Found found = Found.NOTHING;
        for (int slot = chains[chain(stream, stamp.epoch(), stamp.index())]; slot != NONE; slot = nextInChain[slot]) {
            if (streams[slot] == stream && epochs[slot] == stamp.epoch() && indexes[slot] == stamp.index()) {
                if (hashes[slot] == hash) {
                    return Found.SAME;
                }
                found = found == Found.RELATED || related(fingerprints[slot], stamp) ? Found.RELATED : Found.OTHER;
            }
        }
        return found;
    }

    /** True if the stamp comes of the message with this fingerprint, or nothing shows that it does not. */
    private static boolean related(long fingerprint, Stamp stamp) {
        boolean unknown = fingerprint == Stamp.NO_FINGERPRINT || stamp.fingerprint() == Stamp.NO_FINGERPRINT;
        return stamp.derived() && (unknown || fingerprint == stamp.fingerprint());
    }

    void add(Entry entry) {
        if (size == hashes.length && size < maximum) {
            grow();
        }
        if (size == hashes.length) {
            unlink(next);
        } else {
            size++;
        }
        streams[next] = entry.stream;
        epochs[next] = entry.epoch;
        indexes[next] = entry.index;
        hashes[next] = entry.hash;
        fingerprints[next] = entry.fingerprint;
        link(next);
        next = (next + 1) % hashes.length;
    }

    /** Doubles the capacity; only called when the ring is full and was never overwritten, so that it begins at 0. */
    private void grow() {
        int capacity = 2 * size;
        streams = Arrays.copyOf(streams, capacity);
        epochs = Arrays.copyOf(epochs, capacity);
        indexes = Arrays.copyOf(indexes, capacity);
        hashes = Arrays.copyOf(hashes, capacity);
        fingerprints = Arrays.copyOf(fingerprints, capacity);
        nextInChain = new int[capacity];
        chains = emptyChains(capacity);
        for (int slot = 0; slot < size; slot++) {
            link(slot);
        }
        next = size;
    }

    private int chain(SeenStamps.Stream stream, long epoch, long index) {
        long mixed = (stream.identity() ^ epoch * 0x9e3779b97f4a7c15L) + index * 0xbf58476d1ce4e5b9L;
        return (int) (mixed >>> 32 ^ mixed >>> 15) & chains.length - 1;
    }

    private void link(int slot) {
        int chain = chain(streams[slot], epochs[slot], indexes[slot]);
        nextInChain[slot] = chains[chain];
        chains[chain] = slot;
    }

    private void unlink(int slot) {
        int chain = chain(streams[slot], epochs[slot], indexes[slot]);
        if (chains[chain] == slot) {
            chains[chain] = nextInChain[slot];
            return;
        }
        int before = chains[chain];
        while (nextInChain[before] != slot) {
            before = nextInChain[before];
        }
        nextInChain[before] = nextInChain[slot];
    }

    /** A stamp, the hash of the content under it, and the fingerprint of a derived one, if known. */
    record Entry(SeenStamps.Stream stream, long epoch, long index, int hash, long fingerprint) {
        boolean hasFingerprint() {
            return fingerprint != Stamp.NO_FINGERPRINT;
        }
    }

    /** Returns the newest entries, {@code limit} at most, from the oldest to the newest. */
    List<Entry> newest(int limit) {
        int count = Math.min(limit, size);
        List<Entry> entries = new ArrayList<>(count);
        for (int i = count; i > 0; i--) {
            int slot = Math.floorMod(next - i, hashes.length);
            entries.add(new Entry(streams[slot], epochs[slot], indexes[slot], hashes[slot], fingerprints[slot]));
        }
        return entries;
    }
}
