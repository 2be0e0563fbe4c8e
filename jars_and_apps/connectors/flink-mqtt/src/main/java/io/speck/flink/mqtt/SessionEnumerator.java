package io.speck.flink.mqtt;

import java.io.IOException;
import java.util.List;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Assigns the one split to the first subtask; a session has one reader, so the others finish at once. */
final class SessionEnumerator implements SplitEnumerator<MqttSplit, Boolean> {
    private static final int READING_SUBTASK = 0;

    private final SplitEnumeratorContext<MqttSplit> context;
    private MqttSplit unassigned;

    /** @param assigned true if a reader has the split in its own state */
    SessionEnumerator(SplitEnumeratorContext<MqttSplit> context, boolean assigned) {
        this.context = context;
        this.unassigned = assigned ? null : MqttSplit.UNREAD;
    }

    @Override
    public void start() {}

    @Override
    public void handleSplitRequest(int subtask, String host) {}

    @Override
    public void addSplitsBack(List<MqttSplit> splits, int subtask) {
        unassigned = splits.isEmpty() ? unassigned : splits.get(0);
    }

    @Override
    public void addReader(int subtask) {
        if (subtask == READING_SUBTASK && unassigned != null) {
            context.assignSplit(unassigned, subtask);
            unassigned = null;
        }
        context.signalNoMoreSplits(subtask);
    }

    @Override
    public Boolean snapshotState(long checkpoint) {
        return unassigned == null;
    }

    @Override
    public void close() {}

    /** Serializes the enumerator's state: one byte. */
    static final class Serializer implements SimpleVersionedSerializer<Boolean> {
        private static final int VERSION = 1;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(Boolean assigned) {
            return new byte[] {(byte) (assigned ? 1 : 0)};
        }

        @Override
        public Boolean deserialize(int version, byte[] serialized) throws IOException {
            if (version != VERSION || serialized.length != 1) {
                throw new IOException("not the state of an mqtt source's enumerator");
            }
            return serialized[0] == 1;
        }
    }
}
