package io.speck.mqtt.reader;

import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Message;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Varint;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

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
        List<Message> messages, SeenStamps seen, KnownWriters writers) {
    private static final int MAGIC = 0x53504b42;
    private static final int VERSION = 3;
    private static final int VERSION_WITHOUT_FINGERPRINTS = 2;
    private static final int VERSION_OF_HIGHEST_STAMPS = 1;
    private static final int DUPLICATE = 1;
    private static final int NOT_BELIEVED = 2;
    private static final int HEADER_BYTES = 12;

    public byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(HEADER_BYTES + 64 + 8 * messages.size());
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.write(new byte[HEADER_BYTES]);
            writeBody(out);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        byte[] record = bytes.toByteArray();
        putInt(record, 0, MAGIC);
        putInt(record, 4, VERSION);
        putInt(record, 8, checkSum(record));
        return record;
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

    /** @throws IOException if the bytes are not a whole record of a known version */
    public static BatchRecord decode(byte[] record) throws IOException {
        if (record.length < HEADER_BYTES || getInt(record, 0) != MAGIC || getInt(record, 8) != checkSum(record)) {
            throw new IOException("not a whole batch record (" + record.length + " bytes)");
        }
        int version = getInt(record, 4);
        if (version < VERSION_OF_HIGHEST_STAMPS || version > VERSION) {
            throw new IOException("batch record of version " + version + " (expected " + VERSION_OF_HIGHEST_STAMPS
                    + " to " + VERSION + ")");
        }
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(record));
        in.skipNBytes(HEADER_BYTES);
        return readBody(in, version);
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

    private static int checkSum(byte[] record) {
        CRC32C crc = new CRC32C();
        crc.update(record, HEADER_BYTES, record.length - HEADER_BYTES);
        return (int) crc.getValue();
    }

    private static void putInt(byte[] bytes, int at, int value) {
        for (int i = 0; i < 4; i++) {
            bytes[at + i] = (byte) (value >>> 24 - 8 * i);
        }
    }

    private static int getInt(byte[] bytes, int at) {
        int value = 0;
        for (int i = 0; i < 4; i++) {
            value = value << 8 | bytes[at + i] & 0xFF;
        }
        return value;
    }
}
