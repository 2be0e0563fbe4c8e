package io.speck.kafka;

import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.Varint;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** A place in a topic: the offset of the next record of each partition. Not thread-safe. */
final class Place {
    private final Map<Integer, Long> offsets;

    Place(Map<Integer, Long> offsets) {
        this.offsets = new TreeMap<>(offsets);
    }

    Place copy() {
        return new Place(offsets);
    }

    Map<Integer, Long> offsets() {
        return offsets;
    }

    /** Returns the offset in a partition; 0 in one that is new. */
    long of(int partition) {
        return offsets.getOrDefault(partition, 0L);
    }

    /** Moves behind a message. */
    void pass(KafkaMessage message) {
        offsets.merge(message.partition, message.position + 1, Math::max);
    }

    /** Moves to an offset of a partition, unless it is behind it. */
    void advance(int partition, long offset) {
        offsets.merge(partition, offset, Math::max);
    }

    /** True if it is not before another place, in each of that one's partitions. */
    boolean reaches(Map<Integer, Long> other) {
        return other.entrySet().stream().allMatch(each -> of(each.getKey()) >= each.getValue());
    }

    /** The offsets as a commit to the group of the settings' session; {@code messages} is their number so far. */
    Map<TopicPartition, OffsetAndMetadata> commits(SourceSettings settings, long messages) {
        String metadata = "{\"attempt\": " + settings.attempt() + ", \"messages\": " + messages + "}";
        return offsets.entrySet().stream().collect(Collectors.toMap(
                each -> new TopicPartition(settings.topic(), each.getKey()),
                each -> new OffsetAndMetadata(each.getValue(), metadata)));
    }

    void write(DataOutputStream out) throws IOException {
        Varint.write(out, offsets.size());
        for (Map.Entry<Integer, Long> each : offsets.entrySet()) {
            Varint.write(out, each.getKey());
            Varint.write(out, each.getValue());
        }
    }

    static Place read(DataInputStream in) throws IOException {
        Map<Integer, Long> offsets = new TreeMap<>();
        for (long left = Varint.read(in); left > 0; left--) {
            int partition = (int) Varint.read(in);
            offsets.put(partition, Varint.read(in));
        }
        return new Place(offsets);
    }

    @Override
    public String toString() {
        return offsets.toString();
    }
}
