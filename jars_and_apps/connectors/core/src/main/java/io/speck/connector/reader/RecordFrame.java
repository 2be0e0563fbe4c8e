package io.speck.connector.reader;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/**
 * The form that the records of batches have in common: magic, version and check sum, of 4 bytes each, and a body.
 *
 * <p>The magic is another one for each kind of broker; the check sum is the CRC-32C of the body.
 */
public final class RecordFrame {
    private static final int HEADER_BYTES = 12;

    private RecordFrame() {}

    /** Writes the body of a record. */
    public interface Body {
        void write(DataOutputStream out) throws IOException;
    }

    /** Returns a record with its header. */
    public static byte[] encode(int magic, int version, Body body) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.write(new byte[HEADER_BYTES]);
            body.write(out);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        byte[] record = bytes.toByteArray();
        ByteBuffer.wrap(record).putInt(magic).putInt(version).putInt(checkSum(record));
        return record;
    }

    /** True if the bytes begin as a record of this kind. */
    public static boolean isOne(byte[] record, int magic) {
        return record.length >= HEADER_BYTES && ByteBuffer.wrap(record).getInt() == magic;
    }

    /**
     * Returns the version of a record.
     *
     * @throws IOException if the bytes are not a whole record of this kind, in one of these versions
     */
    public static int version(byte[] record, int magic, int oldest, int newest) throws IOException {
        if (!isOne(record, magic) || ByteBuffer.wrap(record).getInt(8) != checkSum(record)) {
            throw new IOException("not a whole batch record (" + record.length + " bytes)");
        }
        int version = ByteBuffer.wrap(record).getInt(4);
        if (version < oldest || version > newest) {
            throw new IOException("batch record of version " + version + " (expected " + oldest
                    + (newest > oldest ? " to " + newest : "") + ")");
        }
        return version;
    }

    /** Returns the body of a record whose version was found. */
    public static DataInputStream body(byte[] record) {
        return new DataInputStream(new ByteArrayInputStream(record, HEADER_BYTES, record.length - HEADER_BYTES));
    }

    private static int checkSum(byte[] record) {
        CRC32C crc = new CRC32C();
        crc.update(record, HEADER_BYTES, record.length - HEADER_BYTES);
        return (int) crc.getValue();
    }
}
