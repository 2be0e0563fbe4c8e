package io.speck.mqtt.stamp;

import java.util.HashMap;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/** The seen stamps of one stream as ranges, for a time in which they arrive out of order. */
final class DedupRanges {
    /** By epoch: first index to last index of each unbroken range. */
    private final Map<Long, NavigableMap<Long, Long>> ranges = new HashMap<>();

    /** Records a stamp; false if it was seen before. */
    boolean add(Stamp stamp) {
        NavigableMap<Long, Long> epochRanges = ranges.computeIfAbsent(stamp.epoch(), epoch -> new TreeMap<>());
        long index = stamp.index();
        Map.Entry<Long, Long> lower = epochRanges.floorEntry(index);
        if (lower != null && index <= lower.getValue()) {
            return false;
        }
        Long end = epochRanges.remove(index + 1);
        long first = lower != null && lower.getValue() == index - 1 ? lower.getKey() : index;
        epochRanges.put(first, end == null ? index : end);
        return true;
    }
}
