package io.speck.mqtt.stamp;

import java.util.HashMap;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/** Which stamps of one stream were seen, each by itself: for a time in which they do not come in their order. */
final class DedupRanges {
    /** By epoch: first index to last index of each unbroken row. */
    private final Map<Long, NavigableMap<Long, Long>> rows = new HashMap<>();

    /** Takes note of a stamp; false when it was seen before. */
    boolean add(Stamp stamp) {
        NavigableMap<Long, Long> row = rows.computeIfAbsent(stamp.epoch(), epoch -> new TreeMap<>());
        long index = stamp.index();
        Map.Entry<Long, Long> below = row.floorEntry(index);
        if (below != null && index <= below.getValue()) {
            return false;
        }
        Long end = row.remove(index + 1);
        row.put(below != null && below.getValue() == index - 1 ? below.getKey() : index, end == null ? index : end);
        return true;
    }
}
