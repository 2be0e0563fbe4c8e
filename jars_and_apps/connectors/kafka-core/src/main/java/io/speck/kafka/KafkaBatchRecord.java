package io.speck.kafka;

import io.speck.connector.FormerBatch;
import io.speck.connector.RecordedBatch;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.RecordFrame;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Varint;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The messages of a batch, by their offsets, so that exactly these can be returned again after a crash.
 *
 * <p>Form: magic, version, check sum; then session, broker, topic, its id, start, end, parts, the places before and after
 * it, the runs (each partition, epoch, first offset, count, fate), and the stamps seen and the writers known at the end of
 * the batch. Versions 1 to 3 did not say which runs have identities by their places, versions 1 and 2 had no epochs, version
 * 1 no broker.
 *
 * @param session the session that the messages were received in
 * @param broker its broker; empty in a record of version 1
 * @param topic the topic
 * @param topicId the id of the topic that both places are in, which is another one if the topic is made anew
 * @param start number of messages before the first one
 * @param end number of messages up to the last one
 * @param parts number of parts that the engine split the batch into
 * @param before the place before the batch
 * @param after the place behind it
 * @param runs its messages in the order of their arrival, dropped duplicates included
 * @param seen the stamps seen at the end of the batch
 * @param writers the writers known at the end of the batch
 */
record KafkaBatchRecord(String session, String broker, String topic, String topicId, long start, long end, int parts,
        Place before, Place after, List<Run> runs, SeenStamps seen, KnownWriters writers) implements RecordedBatch {
    private static final int MAGIC = 0x53504b4b;
    private static final int VERSION = 4;
    private static final int VERSION_BY_PARTITIONS = 3;
    private static final int VERSION_WITHOUT_EPOCHS = 2;
    private static final int VERSION_WITHOUT_BROKER = 1;

    /** Messages of one partition and epoch under consecutive offsets, with the same fate. */
    record Run(int partition, long epoch, long first, long count, int fate) {
        static final int DUPLICATE = 1;
        static final int NOT_NAMED = 2;
        /** The topic had several partitions when they were read, see {@link RecordDecoder}. */
        static final int BY_PLACE = 4;

        static int fate(KafkaMessage message) {
            boolean named = message.believed && !message.collides;
            return (message.duplicate ? DUPLICATE : 0) | (named ? 0 : NOT_NAMED) | (message.places == null ? 0 : BY_PLACE);
        }

        /** True unless the record under an offset is another one than that of this run, since its broker lost that one. */
        boolean isOf(Optional<Integer> leaderEpoch) {
            Optional<Integer> own = Epochs.leader(epoch);
            return epoch != Epochs.GONE && (own.isEmpty() || leaderEpoch.isEmpty() || own.equals(leaderEpoch));
        }

        /** Returns the run of a topic that was deleted: no record is of it. */
        Run gone() {
            return new Run(partition, Epochs.GONE, first, count, fate);
        }

        /** The offset behind its last message. */
        long end() {
            return first + count;
        }

        boolean duplicate() {
            return (fate & DUPLICATE) != 0;
        }

        boolean named() {
            return (fate & NOT_NAMED) == 0;
        }

        boolean byPlace() {
            return (fate & BY_PLACE) != 0;
        }
    }

    @Override
    public FormerBatch reopen(SourceSettings settings, Login login, BatchJournal journal, Losses losses)
            throws InterruptedException {
        return FormerRuns.open(settings, login, this, losses);
    }

    byte[] encode() {
        return RecordFrame.encode(MAGIC, VERSION, this::writeBody);
    }

    private void writeBody(DataOutputStream out) throws IOException {
        out.writeUTF(session);
        out.writeUTF(broker);
        out.writeUTF(topic);
        out.writeUTF(topicId);
        out.writeLong(start);
        out.writeLong(end);
        out.writeInt(parts);
        before.write(out);
        after.write(out);
        Varint.write(out, runs.size());
        for (Run run : runs) {
            Varint.write(out, run.partition());
            Varint.write(out, Epochs.recorded(run.epoch()) + 1);
            Varint.write(out, run.first());
            Varint.write(out, run.count());
            out.writeByte(run.fate());
        }
        seen.write(out);
        writers.write(out);
    }

    /** True if the bytes begin as a record of this kind. */
    static boolean isOne(byte[] record) {
        return RecordFrame.isOne(record, MAGIC);
    }

    /** @throws IOException if the bytes are not a whole record of a known version */
    static KafkaBatchRecord decode(byte[] record) throws IOException {
        int version = RecordFrame.version(record, MAGIC, VERSION_WITHOUT_BROKER, VERSION);
        return readBody(RecordFrame.body(record), version);
    }

    private static KafkaBatchRecord readBody(DataInputStream in, int version) throws IOException {
        String session = in.readUTF();
        String broker = version > VERSION_WITHOUT_BROKER ? in.readUTF() : "";
        String topic = in.readUTF();
        String topicId = in.readUTF();
        long start = in.readLong();
        long end = in.readLong();
        int parts = in.readInt();
        boolean epochs = version > VERSION_WITHOUT_EPOCHS;
        Place before = Place.read(in, epochs);
        Place after = Place.read(in, epochs);
        // Without the flag, the number of partitions decided.
        int flags = version == VERSION_BY_PARTITIONS && after.offsets().size() > 1 ? Run.BY_PLACE : 0;
        List<Run> runs = new ArrayList<>();
        for (long left = Varint.read(in); left > 0; left--) {
            int partition = (int) Varint.read(in);
            long epoch = epochs ? Varint.read(in) - 1 : Epochs.UNKNOWN;
            runs.add(new Run(partition, epoch, Varint.read(in), Varint.read(in), in.readUnsignedByte() | flags));
        }
        return new KafkaBatchRecord(session, broker, topic, topicId, start, end, parts, before, after, runs,
                SeenStamps.read(in, SeenStamps.RECORDED_HASHES, true), KnownWriters.read(in));
    }
}
