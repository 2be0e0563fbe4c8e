package io.speck.mqtt.reader;

import io.speck.connector.FormerBatch;
import io.speck.connector.RecordedBatch;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
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

/**
 * The messages of a batch, so that exactly these can be returned again after a crash.
 *
 * <p>Form: magic, version, check sum; then client id, broker, start, end, partitions, time of the first message, the
 * messages (each packet id, hash, time since the one before in ms as variable-length number whose lowest bits say
 * "duplicate" and "stamp not believed"), and the stamps seen and the writers known at the end of the batch. Version 2
 * had no fingerprints of stamps. Version 1 had one lowest bit, the highest stamp of each stream, and no writers.
 *
 * @param clientId the session that the messages were received in
 * @param broker its broker
 * @param start offset of the first message
 * @param end offset after the last one
 * @param partitions number of parts that the engine split the batch into
 * @param messages in the order of their arrival, dropped duplicates included
 * @param seen the stamps seen at the end of the batch
 * @param writers the writers known at the end of the batch
 */
public record BatchRecord(String clientId, String broker, long start, long end, int partitions,
        List<Message> messages, SeenStamps seen, KnownWriters writers) implements RecordedBatch {
    private static final int MAGIC = 0x53504b42;
    private static final int VERSION = 3;
    private static final int VERSION_WITHOUT_FINGERPRINTS = 2;
    private static final int VERSION_OF_HIGHEST_STAMPS = 1;
    private static final int DUPLICATE = 1;
    private static final int NOT_BELIEVED = 2;

    @Override
    public String session() {
        return clientId;
    }

    @Override
    public int parts() {
        return partitions;
    }

    @Override
    public FormerBatch reopen(SourceSettings settings, Login login, BatchJournal journal, Losses losses)
            throws IOException, InterruptedException {
        return FormerSession.open(settings.former(clientId, login), this, journal, losses);
    }

    public byte[] encode() {
        return RecordFrame.encode(MAGIC, VERSION, this::writeBody);
    }

    private void writeBody(DataOutputStream out) throws IOException {
        out.writeUTF(clientId);
        out.writeUTF(broker);
        out.writeLong(start);
        out.writeLong(end);
        out.writeInt(partitions);
        out.writeInt(messages.size());
        long time = messages.isEmpty() ? 0 : messages.get(0).receivedMillis;
        out.writeLong(time);
        for (Message message : messages) {
            out.writeShort(message.givenUp ? 0 : message.packetId); // without an id, it is not awaited again
            out.writeInt(message.hash);
            long delta = Math.max(0, message.receivedMillis - time);
            boolean named = message.believed && !message.collides;
            Varint.write(out, delta << 2 | (message.duplicate ? DUPLICATE : 0) | (named ? 0 : NOT_BELIEVED));
            time += delta;
        }
        seen.write(out);
        writers.write(out);
    }

    /** True if the bytes begin as a record of this kind. */
    public static boolean isOne(byte[] record) {
        return RecordFrame.isOne(record, MAGIC);
    }

    /** @throws IOException if the bytes are not a whole record of a known version */
    public static BatchRecord decode(byte[] record) throws IOException {
        int version = RecordFrame.version(record, MAGIC, VERSION_OF_HIGHEST_STAMPS, VERSION);
        return readBody(RecordFrame.body(record), version);
    }

    private static BatchRecord readBody(DataInputStream in, int version) throws IOException {
        boolean highest = version == VERSION_OF_HIGHEST_STAMPS;
        int flagBits = highest ? 1 : 2;
        String clientId = in.readUTF();
        String broker = in.readUTF();
        long start = in.readLong();
        long end = in.readLong();
        int partitions = in.readInt();
        int count = in.readInt();
        long time = in.readLong();
        List<Message> messages = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            int packetId = in.readUnsignedShort();
            int hash = in.readInt();
            long number = Varint.read(in);
            time += number >>> flagBits;
            boolean believed = highest || (number & NOT_BELIEVED) == 0;
            messages.add(Message.awaited(packetId, hash, time, (number & DUPLICATE) != 0, believed));
        }
        SeenStamps seen = highest ? SeenStamps.readHighest(in, SeenStamps.RECORDED_HASHES)
                : SeenStamps.read(in, SeenStamps.RECORDED_HASHES, version > VERSION_WITHOUT_FINGERPRINTS);
        KnownWriters writers = highest ? KnownWriters.all() : KnownWriters.read(in);
        return new BatchRecord(clientId, broker, start, end, partitions, messages, seen, writers);
    }
}
