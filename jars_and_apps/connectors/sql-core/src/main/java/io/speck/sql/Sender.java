package io.speck.sql;

import java.util.ArrayList;
import java.util.List;

/**
 * The messages of a program without windows. A part of a query that sends several rows in a frame closes one once the
 * progress moves a step, so that no row waits longer than the results for which it is needed, and earlier if many
 * messages have come. So the frames follow from the messages alone, by no clock and by no cut: if messages are read
 * again, the same one closes a frame, and the frame has its stamp. A query without windows has such steps for its frames
 * alone, and sends no progress without a row.
 */
public final class Sender {
    private final SqlProgram program;
    private final Watermarks sent;
    /** Null for a program that sends no frames. */
    private final FrameWriter writer;
    private final List<Object[]> waiting = new ArrayList<>();
    private int messages;
    private long bytes;
    private long progress;

    Sender(SqlProgram program, FrameWriter writer) {
        this.program = program;
        this.sent = program.watermarks();
        this.writer = writer;
    }

    /**
     * Returns the texts for a message, in their order: for the rest of a query the results of a frame, otherwise the
     * frames, or the progress, that are sent now.
     *
     * @param topic null if the content is {@link SqlProgram#decoded}
     * @param more true if the row may wait for later messages, with which this one is read again if it must be
     * @throws UnparsableMessageException if it does not fit the contract of its topic, or is no frame of the query
     */
    public List<String> texts(String topic, byte[] content, boolean more) {
        if (program.readsFrames()) {
            return program.results(topic, content);
        }
        Object[] row = program.read(topic, content);
        if (writer == null) {
            return listed(program.message(row));
        }
        long reached = program.progress(row);
        boolean moved = sent.advance("", reached);
        Object[] values = program.values(row);
        long size = topic == null ? (Long) row[row.length - 1] : content.length; // of the message, in either form
        // A row that fills a frame alone: a broker that refuses it as too large takes the others.
        String before = writer.isFull(1, size) ? close() : null;
        if (values != null) {
            waiting.add(values);
        }
        messages++;
        bytes += size;
        progress = Math.max(progress, reached);
        String last = more && !moved && !writer.isFull(messages, bytes) ? null : closed(moved);
        return before == null ? listed(last) : last == null ? List.of(before) : List.of(before, last);
    }

    private static List<String> listed(String text) {
        return text == null ? List.of() : List.of(text);
    }

    /** Returns a frame of all rows that wait, or without one the progress, if it has moved; null for neither. */
    private String closed(boolean moved) {
        String frame = close();
        return frame == null && moved && program.sendsProgress() ? SqlProgram.progressText(sent.mark()) : frame;
    }

    /** True if messages have come since the last frame was closed. */
    public boolean waits() {
        return messages > 0;
    }

    /**
     * Returns the progress, to be kept: where frames end follows from it, and from the messages from the first one on that
     * waits; {@link Watermarks#NONE} before the first message.
     */
    public long progress() {
        return sent.mark();
    }

    /** Takes a progress that was kept. */
    public void restore(long kept) {
        if (kept != Watermarks.NONE) {
            sent.advance("", kept);
        }
    }

    /** Returns a frame of all rows that wait; null if none do. */
    public String close() {
        String frame = waiting.isEmpty() ? null : writer.frame(waiting, progress);
        waiting.clear();
        messages = 0;
        bytes = 0;
        progress = 0;
        return frame;
    }
}
