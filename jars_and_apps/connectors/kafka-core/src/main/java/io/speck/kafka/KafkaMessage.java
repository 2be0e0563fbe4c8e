package io.speck.kafka;

import io.speck.connector.reader.Message;
import io.speck.mqtt.stamp.Stamp;

/** A received record. */
final class KafkaMessage extends Message {
    /** The place of a packet id; 0 would count it as a message without acknowledgement. */
    private static final int ACKNOWLEDGED = 1;

    final int partition;
    /** The epoch of the partition in which its broker took it, see {@link Epochs}. */
    final long epoch;
    /** Its offset in the partition. */
    final long position;
    /** The identity under which a replay reads it; null for none, and where no replay reads it. */
    private Stamp again;
    /** The run of its identity by its place; null if it has none, see {@link RecordDecoder}. */
    String places;

    KafkaMessage(int partition, long epoch, long position, int hash, String topic, byte[] payload, long millis,
            Stamp stamp) {
        super(ACKNOWLEDGED, hash, topic, payload, millis, stamp);
        this.partition = partition;
        this.epoch = epoch;
        this.position = position;
    }

    /** Has outputs derive from this identity of the message. */
    void readAgainAs(Stamp identity) {
        again = identity;
    }

    /** The identity that outputs derive from: that of its writer, or else by its place; null for none. */
    @Override
    public Stamp stamp() {
        Stamp own = super.stamp();
        if (own != null) {
            return again == null ? own : again;
        }
        return places == null ? null
                : new Stamp(RecordDecoder.NO_JOB, places, partition, Epochs.leader(epoch).orElse(0), position);
    }
}
