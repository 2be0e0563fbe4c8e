package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

/**
 * Reads the messages of one segment of a {@link Spool}. Behind damaged bytes it continues at the next whole record, whose
 * length, check sum and header of a packet agree.
 *
 * <p>How many records the damaged bytes held is known only if the length of the first one leads to the next whole record.
 * Otherwise the messages behind them get {@link #UNNUMBERED} as their number, which no mark reaches: they are sent again
 * in any case, and readers recognise repetitions.
 */
final class SegmentReader {
    static final long UNNUMBERED = Long.MAX_VALUE;

    private final ByteBuf bytes;
    private final CRC32C sum = new CRC32C();
    private int gaps;
    private int damagedBytes;

    SegmentReader(byte[] content) {
        this.bytes = Unpooled.wrappedBuffer(content);
    }

    /**
     * Returns the messages with their numbers, in order. What a crash left behind the last whole record was never forced, so
     * its input was not acknowledged: it is passed over.
     *
     * @param first the number of the first message
     */
    List<OutgoingMessage> read(long first, Delivery delivery) {
        List<OutgoingMessage> messages = new ArrayList<>();
        long number = first;
        int place = 0;
        for (int next = nextWhole(0); next >= 0; next = nextWhole(place)) {
            if (next > place) {
                number = number != UNNUMBERED && next == end(place) ? number + 1 : UNNUMBERED;
                addGap(next - place);
            }
            OutgoingMessage message =
                    OutgoingMessage.decode(delivery, bytes.slice(next + Spool.RECORD_HEADER, bytes.getInt(next)));
            message.deliveryNumber = number;
            messages.add(message);
            number += number == UNNUMBERED ? 0 : 1;
            place = end(next);
        }
        if (end(place) <= bytes.writerIndex()) { // not torn: all of the record is there
            addGap(bytes.writerIndex() - place);
        }
        return messages;
    }

    private void addGap(int length) {
        gaps++;
        damagedBytes += length;
    }

    /** The number of damaged places; at least as many messages are lost. */
    int gaps() {
        return gaps;
    }

    int damagedBytes() {
        return damagedBytes;
    }

    /** Returns the end of the record that begins at a place, by its length; beyond the segment for one that has none. */
    private int end(int place) {
        int header = place + Spool.RECORD_HEADER;
        int length = header <= bytes.writerIndex() ? bytes.getInt(place) : 0;
        boolean fits = length > 0 && length <= bytes.writerIndex() - header;
        return fits ? header + length : Integer.MAX_VALUE;
    }

    /** Returns the place of the first whole record from a place on; -1 if there is none. */
    private int nextWhole(int from) {
        for (int place = from; place < bytes.writerIndex(); place++) {
            if (isWhole(place)) {
                return place;
            }
        }
        return -1;
    }

    private boolean isWhole(int place) {
        int end = end(place);
        int packet = place + Spool.RECORD_HEADER;
        return end != Integer.MAX_VALUE && OutgoingMessage.isPacket(bytes, packet, end - packet)
                && Spool.checkSum(sum, bytes.nioBuffer(packet, end - packet)) == bytes.getInt(place + Integer.BYTES);
    }
}
