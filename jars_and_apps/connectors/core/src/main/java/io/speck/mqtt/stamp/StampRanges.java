package io.speck.mqtt.stamp;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Arrays;

/**
 * The seen numbers of one stream, as ranges of indexes within an epoch, in increasing order.
 *
 * <p>Three sorted arrays hold epoch, first and last index of each range. Stamps mostly arrive in order, so nearly all
 * extend the last range or follow it.
 */
final class StampRanges {
    /** An epoch is a batch of its writer: one that is this far behind the newest is not repeated any more. */
    static final int MAXIMUM_EPOCHS = 4096;
    private static final int FIRST_CAPACITY = 4;
    private static final int NEW_EPOCH = 1;
    private static final int SINGLE = 2;
    private static final int FLAG_BITS = 2;
    private static final int LONG_DISTANCE = 63;

    private long[] epochs = new long[FIRST_CAPACITY];
    private long[] firsts = new long[FIRST_CAPACITY];
    private long[] lasts = new long[FIRST_CAPACITY];
    private int head;
    private int end;
    private int epochCount;
    /** All numbers up to this one count as seen. */
    private long floorEpoch = -1;
    private long floorIndex = -1;

    StampRanges() {}

    /** Creates the ranges of a stream of which only the highest number is known. */
    StampRanges(long floorEpoch, long floorIndex) {
        this.floorEpoch = floorEpoch;
        this.floorIndex = floorIndex;
    }

    int size() {
        return end - head;
    }

    /** Records a number; false if it was seen before. */
    boolean add(long epoch, long index) {
        if (epoch < floorEpoch || epoch == floorEpoch && index <= floorIndex) {
            return false;
        }
        int lower = lastNotAbove(epoch, index);
        boolean sameEpoch = lower >= head && epochs[lower] == epoch;
        if (sameEpoch && index <= lasts[lower]) {
            return false;
        }
        boolean joinsLower = sameEpoch && lasts[lower] == index - 1;
        boolean joinsUpper = lower + 1 < end && epochs[lower + 1] == epoch && firsts[lower + 1] == index + 1;
        if (joinsLower) {
            lasts[lower] = joinsUpper ? lasts[lower + 1] : index;
            if (joinsUpper) {
                remove(lower + 1);
            }
        } else if (joinsUpper) {
            firsts[lower + 1] = index;
        } else {
            insert(lower + 1, epoch, index);
        }
        return true;
    }

    /** Records a number up to which all count as seen from now on; false if it was seen before. */
    boolean raise(long epoch, long index) {
        if (epoch < floorEpoch || epoch == floorEpoch && index <= floorIndex) {
            return false;
        }
        floorEpoch = epoch;
        floorIndex = index;
        return true;
    }

    /** Returns the position of the last range that does not begin above a number; head - 1 for none. */
    private int lastNotAbove(long epoch, long index) {
        int low = head;
        int high = end - 1;
        if (low > high || !beginsAbove(high, epoch, index)) {
            return high;
        }
        while (low < high) {
            int middle = low + high >>> 1;
            if (beginsAbove(middle, epoch, index)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low - 1;
    }

    private boolean beginsAbove(int position, long epoch, long index) {
        return epochs[position] > epoch || epochs[position] == epoch && firsts[position] > index;
    }

    private void insert(int position, long epoch, long index) {
        boolean known = position > head && epochs[position - 1] == epoch || position < end && epochs[position] == epoch;
        int at = position + reserve();
        move(at, at + 1, end - at);
        end++;
        set(at, epoch, index, index);
        epochCount += known ? 0 : 1;
        if (epochCount > MAXIMUM_EPOCHS) {
            dropLowestEpoch();
        }
    }

    /** Makes room for one more range; returns by how much the present ones were moved. */
    private int reserve() {
        if (end < epochs.length) {
            return 0;
        }
        int moved = -head;
        int size = size();
        if (head > epochs.length / 2) {
            move(head, 0, size);
        } else {
            int capacity = Math.max(FIRST_CAPACITY, 2 * size);
            epochs = resized(epochs, capacity);
            firsts = resized(firsts, capacity);
            lasts = resized(lasts, capacity);
        }
        head = 0;
        end = size;
        return moved;
    }

    private long[] resized(long[] values, int capacity) {
        return Arrays.copyOf(Arrays.copyOfRange(values, head, end), capacity);
    }

    private void move(int from, int to, int count) {
        System.arraycopy(epochs, from, epochs, to, count);
        System.arraycopy(firsts, from, firsts, to, count);
        System.arraycopy(lasts, from, lasts, to, count);
    }

    private void set(int at, long epoch, long first, long last) {
        epochs[at] = epoch;
        firsts[at] = first;
        lasts[at] = last;
    }

    private void remove(int position) {
        move(position + 1, position, end - position - 1);
        end--;
    }

    private void dropLowestEpoch() {
        long epoch = epochs[head];
        while (head < end && epochs[head] == epoch) {
            head++;
        }
        epochCount--;
    }

    /** Forgets the lowest ranges: their numbers count as new again. */
    void dropLowest(int count) {
        for (int i = 0; i < count && head < end; i++, head++) {
            epochCount -= head + 1 == end || epochs[head + 1] != epochs[head] ? 1 : 0;
        }
    }

    /**
     * Writes floor, number of ranges, and the ranges. Of each: a byte with two flags (another epoch than the range before,
     * one number only) and the distance from the range before, of which larger ones follow as a number; the first index
     * if the epoch is another one; the length if there is more than one number.
     */
    void write(DataOutputStream out) throws IOException {
        out.writeLong(floorEpoch);
        out.writeLong(floorIndex);
        Varint.write(out, size());
        long epoch = -1;
        long last = 0;
        for (int i = head; i < end; i++) {
            boolean another = epochs[i] != epoch;
            boolean single = firsts[i] == lasts[i];
            long distance = another ? epochs[i] - epoch - 1 : firsts[i] - last - 2;
            int shown = (int) Math.min(distance, LONG_DISTANCE);
            out.writeByte(shown << FLAG_BITS | (another ? NEW_EPOCH : 0) | (single ? SINGLE : 0));
            if (shown == LONG_DISTANCE) {
                Varint.write(out, distance);
            }
            if (another) {
                Varint.write(out, firsts[i]);
            }
            if (!single) {
                Varint.write(out, lasts[i] - firsts[i] - 1);
            }
            epoch = epochs[i];
            last = lasts[i];
        }
    }

    static StampRanges read(DataInputStream in) throws IOException {
        StampRanges read = new StampRanges(in.readLong(), in.readLong());
        long epoch = -1;
        long last = 0;
        for (long remaining = Varint.read(in); remaining > 0; remaining--) {
            int flags = in.readUnsignedByte();
            long distance = flags >>> FLAG_BITS == LONG_DISTANCE ? Varint.read(in) : flags >>> FLAG_BITS;
            boolean another = (flags & NEW_EPOCH) != 0;
            epoch += another ? distance + 1 : 0;
            long first = another ? Varint.read(in) : last + distance + 2;
            last = (flags & SINGLE) != 0 ? first : first + Varint.read(in) + 1;
            read.reserve();
            read.set(read.end++, epoch, first, last);
            read.epochCount += another ? 1 : 0;
        }
        return read;
    }
}
