package io.speck.flink.mqtt;

import io.speck.mqtt.reader.BatchRecord;
import java.util.Collections;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.flink.api.connector.source.SourceSplit;

/**
 * The one session of a source, and the position in it.
 *
 * <p>Of each message that the state already reflects, but that the broker may send again, it holds packet id and hash
 * (about eight bytes), never the content.
 */
public final class MqttSplit implements SourceSplit {
    static final long NO_END = -1;
    static final MqttSplit UNREAD = new MqttSplit(0, NO_END, new TreeMap<>());

    private final long position;
    private final long waitEnd;
    private final SortedMap<Long, byte[]> records;

    /**
     * @param position number of messages that were emitted, without those whose outputs wait
     * @param waitEnd position at which outputs that wait are written, whatever follows; {@link #NO_END} for none
     * @param records a {@link BatchRecord} of each emitted batch that may be unacknowledged, by its start
     */
    MqttSplit(long position, long waitEnd, SortedMap<Long, byte[]> records) {
        this.position = position;
        this.waitEnd = waitEnd;
        this.records = Collections.unmodifiableSortedMap(records);
    }

    long position() {
        return position;
    }

    long waitEnd() {
        return waitEnd;
    }

    SortedMap<Long, byte[]> records() {
        return records;
    }

    @Override
    public String splitId() {
        return "session";
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof MqttSplit that && MqttSplitSerializer.same(this, that);
    }

    @Override
    public int hashCode() {
        return Objects.hash(position, records.keySet());
    }
}
