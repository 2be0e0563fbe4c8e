package io.speck.flink.mqtt;

/**
 * The end of a wait of outputs that no message brings about: a drain waits for them, or no message has come between two
 * checkpoints. After a failure the same messages must be written together again, so the end is part of a checkpoint
 * before it comes. Until that is complete no further message is emitted.
 */
final class WaitEnd {
    private long position;
    /** The first checkpoint with the position. */
    private long checkpoint;
    private long before = MqttSplit.NO_END;
    private boolean recorded = true;

    /** @param position the one in the state before a restart; {@link MqttSplit#NO_END} for none */
    WaitEnd(long position) {
        this.position = position;
    }

    /**
     * Returns the position for a checkpoint; {@link MqttSplit#NO_END} for none.
     *
     * @param now the number of messages that were emitted
     * @param holds true if outputs wait
     * @param drained true if a drain waits for them
     */
    long snapshot(long checkpoint, long now, boolean holds, boolean drained) {
        if (position == MqttSplit.NO_END && holds && (drained || now == before)) {
            position = now;
            this.checkpoint = checkpoint;
            recorded = false;
        }
        before = now;
        return position;
    }

    /** Notes that a checkpoint is complete. */
    void complete(long checkpoint) {
        recorded |= checkpoint >= this.checkpoint;
    }

    /** True if no message may be emitted behind this number of them, before the wait has ended. */
    boolean isAt(long now) {
        return position == now;
    }

    /** True if a checkpoint with the position is complete. */
    boolean isRecorded() {
        return recorded;
    }

    /** Notes that the wait has ended. */
    void end() {
        position = MqttSplit.NO_END;
    }
}
