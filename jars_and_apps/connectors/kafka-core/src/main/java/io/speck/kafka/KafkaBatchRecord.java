package io.speck.kafka;

import io.speck.connector.reader.KnownWriters;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Varint;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

/**
 * The messages of a batch, by their offsets, so that exactly these can be returned again after a crash.
 *
 * <p>Form: magic, version, check sum; then session, topic, its id, start, end, parts, the places before and after it, the
 * runs (each partition, first offset, count, fate), and the stamps seen and the writers known at the end of the batch.
 *
 * @param session the session that the messages were received in
 * @param topic the topic
 * @param topicId the id of the topic, which is another one if the topic is made anew
 * @param start number of messages before the first one
 * @param end number of messages up to the last one
 * @param parts number of parts that the engine split the batch into
 * @param before the place before the batch
 * @param after the place behind it
 * @param runs its messages in the order of their arrival, dropped duplicates included
 * @param seen the stamps seen at the end of the batch
 * @param writers the writers known at the end of the batch
 */
record KafkaBatchRecord(String session, String topic, String topicId, long start, long end, int parts, Place before,
        Place after, List<Run> runs, SeenStamps seen, KnownWriters writers) {
    private static final int MAGIC = 0x53504b4b;
    private static final int VERSION = 1;
    private static final int HEADER_BYTES = 12;

    /** Messages of one partition under consecutive offsets, with the same fate. */
    record Run(int partition, long first, long count, int fate) {
        static final int DUPLICATE = 1;
        static final int NOT_NAMED = 2;

        static int fate(KafkaMessage message) {
            boolean named = message.believed && !message.collides;
            return (message.duplicate ? DUPLICATE : 0) | (named ? 0 : NOT_NAMED);
        }

        boolean duplicate() {
            return (fate & DUPLICATE) != 0;
        }

        boolean named() {
            return (fate & NOT_NAMED) == 0;
        }

        private boolean continuedBy(KafkaMessage message) {
            return message.partition == partition && message.position == first + count && fate(message) == fate;
        }
    }

    /** Returns the runs of messages. */
    static List<Run> runs(List<KafkaMessage> messages) {
        List<Run> runs = new ArrayList<>();
        for (KafkaMessage message : messages) {
            Run last = runs.isEmpty() ? null : runs.get(runs.size() - 1);
            if (last != null && last.continuedBy(message)) {
                runs.set(runs.size() - 1, new Run(last.partition(), last.first(), last.count() + 1, last.fate()));
            } else {
                runs.add(new Run(message.partition, message.position, 1, Run.fate(message)));
            }
        }
        return runs;
    }

    byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.write(new byte[HEADER_BYTES]);
            writeBody(out);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        byte[] record = bytes.toByteArray();
        ByteBuffer.wrap(record).putInt(MAGIC).putInt(VERSION).putInt(checkSum(record));
        return record;
    }

    private void writeBody(DataOutputStream out) throws IOException {
        out.writeUTF(session);
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
            Varint.write(out, run.first());
            Varint.write(out, run.count());
            out.writeByte(run.fate());
        }
        seen.write(out);
        writers.write(out);
    }

    /** True if the bytes begin as a record of this kind. */
    static boolean isOne(byte[] record) {
        return record.length >= HEADER_BYTES && ByteBuffer.wrap(record).getInt() == MAGIC;
    }

    /** @throws IOException if the bytes are not a whole record of a known version */
    static KafkaBatchRecord decode(byte[] record) throws IOException {
        if (!isOne(record) || ByteBuffer.wrap(record).getInt(8) != checkSum(record)) {
            throw new IOException("not a whole batch record of a Kafka topic (" + record.length + " bytes)");
        }
        int version = ByteBuffer.wrap(record).getInt(4);
        if (version != VERSION) {
            throw new IOException("batch record of version " + version + " (expected " + VERSION + ")");
        }
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(record));
        in.skipNBytes(HEADER_BYTES);
        return readBody(in);
    }

    private static KafkaBatchRecord readBody(DataInputStream in) throws IOException {
        String session = in.readUTF();
        String topic = in.readUTF();
        String topicId = in.readUTF();
        long start = in.readLong();
        long end = in.readLong();
        int parts = in.readInt();
        Place before = Place.read(in);
        Place after = Place.read(in);
        List<Run> runs = new ArrayList<>();
        for (long left = Varint.read(in); left > 0; left--) {
            runs.add(new Run((int) Varint.read(in), Varint.read(in), Varint.read(in), in.readUnsignedByte()));
        }
        return new KafkaBatchRecord(session, topic, topicId, start, end, parts, before, after, runs,
                SeenStamps.read(in, SeenStamps.RECORDED_HASHES, true), KnownWriters.read(in));
    }

    private static int checkSum(byte[] record) {
        CRC32C crc = new CRC32C();
        crc.update(record, HEADER_BYTES, record.length - HEADER_BYTES);
        return (int) crc.getValue();
    }
}
