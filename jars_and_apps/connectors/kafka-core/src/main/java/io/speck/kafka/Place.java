package io.speck.kafka;

import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.Varint;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * A place in a topic: the offset of the next record of each partition, and the epoch of the record before it, by which a
 * broker tells if it still has that record. Not thread-safe.
 */
final class Place {
    /**
     * An offset of a partition; one of a higher epoch is behind all offsets of a lower one.
     *
     * @param marks true behind marks of transactions, which may be of a higher epoch than the message before them
     */
    private record Position(long epoch, long offset, boolean marks) {
        static final Position FIRST = new Position(Epochs.UNKNOWN, 0);

        Position(long epoch, long offset) {
            this(epoch, offset, false);
        }

        /** The epoch that a broker may compare. */
        long compared() {
            return marks ? Epochs.UNKNOWN : Epochs.recorded(epoch);
        }

        static Position later(Position one, Position other) {
            boolean behind = other.epoch > one.epoch || other.epoch == one.epoch && other.offset > one.offset;
            return behind ? other : one;
        }
    }

    private final Map<Integer, Position> positions;
    /** The number of times that the topic was made anew before it got these partitions. */
    private long timesMadeAnew;

    private Place(Map<Integer, Position> positions) {
        this.positions = new TreeMap<>(positions);
    }

    /** Returns a place of which the offsets alone are known. */
    static Place at(Map<Integer, Long> offsets) {
        Place place = new Place(Map.of());
        offsets.forEach((partition, offset) -> place.positions.put(partition, new Position(Epochs.UNKNOWN, offset)));
        return place;
    }

    /** Returns the place that is committed to a group. */
    static Place committed(Map<TopicPartition, OffsetAndMetadata> commits) {
        Place place = new Place(Map.of());
        commits.forEach((partition, commit) -> {
            if (commit != null) {
                place.positions.put(partition.partition(),
                        new Position(Epochs.of(commit.leaderEpoch(), 0), commit.offset()));
            }
        });
        return place;
    }

    Place copy() {
        Place copy = new Place(positions);
        copy.timesMadeAnew = timesMadeAnew;
        return copy;
    }

    boolean isEmpty() {
        return positions.isEmpty();
    }

    /** The offsets by partition. */
    Map<Integer, Long> offsets() {
        Map<Integer, Long> offsets = new TreeMap<>();
        positions.forEach((partition, position) -> offsets.put(partition, position.offset));
        return offsets;
    }

    /** Returns the offset in a partition; 0 in one that is new. */
    long of(int partition) {
        return position(partition).offset;
    }

    private Position position(int partition) {
        return positions.getOrDefault(partition, Position.FIRST);
    }

    /** Moves to the beginning of a topic that was made anew this often: behind all places in the former one. */
    void beginAnew(Map<Integer, Long> begins, long timesMadeAnew) {
        this.timesMadeAnew = timesMadeAnew;
        long epoch = Epochs.of(Optional.empty(), timesMadeAnew);
        positions.clear();
        begins.forEach((partition, offset) -> positions.put(partition, new Position(epoch, offset)));
    }

    /** Adds the beginnings of partitions that it does not have. */
    void begin(Collection<Integer> partitions) {
        Position first = new Position(Epochs.of(Optional.empty(), timesMadeAnew), 0);
        partitions.forEach(each -> positions.putIfAbsent(each, first));
    }

    /** Moves behind a message, unless it is behind it. */
    void pass(KafkaMessage message) {
        advance(message.partition, message.epoch, message.position + 1);
    }

    /**
     * Moves to an offset of a partition in an epoch, unless it is behind it. The former topic of a place that began anew may
     * have had partitions that the present one does not have.
     */
    void advance(int partition, long epoch, long offset) {
        if (Epochs.timesMadeAnew(epoch) < timesMadeAnew) {
            return;
        }
        positions.merge(partition, new Position(epoch, offset), Position::later);
    }

    /** Moves behind marks of transactions, to an offset of a partition, unless it is behind it. */
    void passMarks(int partition, long offset) {
        positions.merge(partition, new Position(position(partition).epoch, offset, true), Position::later);
    }

    /** True if it is not before another place, in each of that one's partitions. */
    boolean reaches(Map<Integer, Long> other) {
        return other.entrySet().stream().allMatch(each -> of(each.getKey()) >= each.getValue());
    }

    /** The offsets as a commit to the group of the settings' session; {@code messages} is their number so far. */
    Map<TopicPartition, OffsetAndMetadata> commits(SourceSettings settings, long messages) {
        String metadata = "{\"attempt\": " + settings.attempt() + ", \"messages\": " + messages + "}";
        return positions.keySet().stream().collect(Collectors.toMap(
                each -> new TopicPartition(settings.topic(), each), each -> commit(each, metadata)));
    }

    /** Returns the place in a partition for a consumer, which compares the epoch with those of the broker. */
    OffsetAndMetadata in(int partition) {
        return commit(partition, "");
    }

    private OffsetAndMetadata commit(int partition, String metadata) {
        Position position = position(partition);
        return new OffsetAndMetadata(position.offset, Epochs.leader(position.compared()), metadata);
    }

    void write(DataOutputStream out) throws IOException {
        Varint.write(out, positions.size());
        for (Map.Entry<Integer, Position> each : positions.entrySet()) {
            Varint.write(out, each.getKey());
            Varint.write(out, each.getValue().offset);
            Varint.write(out, each.getValue().compared() + 1);
        }
    }

    /** @param epochs false for the form without them */
    static Place read(DataInputStream in, boolean epochs) throws IOException {
        Place place = new Place(Map.of());
        for (long left = Varint.read(in); left > 0; left--) {
            int partition = (int) Varint.read(in);
            long offset = Varint.read(in);
            long epoch = epochs ? Varint.read(in) - 1 : Epochs.UNKNOWN;
            place.positions.put(partition, new Position(epoch, offset));
        }
        return place;
    }

    @Override
    public String toString() {
        return offsets().toString();
    }
}
