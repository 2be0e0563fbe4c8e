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

    @Override
    public Stamp stamp() {
        return again == null || super.stamp() == null ? super.stamp() : again;
    }
}
