package io.speck.mqtt.stamp;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;

/** Numbers in as many bytes as they need: seven bits a byte, the lowest first, the eighth bit set if more follow. */
public final class Varint {
    private Varint() {}

    /** Writes a number; a negative one takes ten bytes. */
    public static void write(DataOutputStream out, long number) throws IOException {
        long rest = number;
        while (rest >>> 7 != 0) {
            out.writeByte((int) (rest & 0x7F | 0x80));
            rest >>>= 7;
        }
        out.writeByte((int) rest);
    }

    public static long read(DataInputStream in) throws IOException {
        long number = 0;
        for (int shift = 0; ; shift += 7) {
            int octet = in.readUnsignedByte();
            number |= (long) (octet & 0x7F) << shift;
            if (octet < 0x80) {
                return number;
            }
        }
    }
}
