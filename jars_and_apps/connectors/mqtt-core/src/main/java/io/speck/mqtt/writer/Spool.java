package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import java.util.zip.CRC32C;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The messages of a {@link RetransmissionBuffer} on disk, so that they outlive the process: a site that loses power
 * loses the writer together with what its broker had acknowledged and not saved. The next process that writes to the
 * same broker takes them over ({@link SpoolFolder}).
 *
 * <p>Messages are appended to segments, which are deleted as a whole once the buffer has dropped all of their messages. A
 * segment is named by the number of its first message; each record is its length, a check sum, and the packet. {@link
 * #force} makes what was appended survive a power cut, and must precede the acknowledgement of the input.
 *
 * <p>A disk that fails ends the spool, and no writer: messages are then held in memory alone, as without one. A thread
 * that is interrupted here is no such failure, so segments are streams: an interrupt closes a channel.
 */
final class Spool {
    static final String SUFFIX = ".log";
    static final int RECORD_HEADER = 8;
    private static final Logger LOG = LoggerFactory.getLogger(Spool.class);
    private static final int SEGMENT_BYTES = 1 << 20;
    /** Fewer and larger writes: the pages reach the disk by {@link #force} alone. */
    private static final int WRITE_BYTES = 64 << 10;

    private record Segment(long first, Path path) {}

    /** The publisher's lock: guards all fields but {@code forced}. */
    private final ReentrantLock lock;
    private final SpoolFolder folder;
    private final Deque<Segment> segments = new ArrayDeque<>();
    private final List<FileOutputStream> unforced = new ArrayList<>();
    private final ByteBuf pending = Unpooled.buffer(WRITE_BYTES / 4);
    private final CRC32C sum = new CRC32C();
    private FileOutputStream stream;
    private long segmentBytes;
    private boolean namesUnforced;
    private boolean failed;
    private volatile long appended;
    /** One thread forces at a time; those that waited for it mostly find their messages forced as well. */
    private final Object forcing = new Object();
    private volatile long forced;

    Spool(SpoolFolder folder, ReentrantLock lock) {
        this.folder = folder;
        this.lock = lock;
    }

    /** Appends a message; its number is above that of the message before. */
    void append(OutgoingMessage message, long number) {
        boolean follows = number == appended + 1;
        appended = number;
        if (failed) {
            return;
        }
        try {
            if (stream != null && !follows) {
                drain();
                stream = null; // a segment has consecutive numbers
            }
            if (stream == null) {
                begin(number);
            }
            int start = pending.writerIndex();
            pending.writeLong(0);
            message.encode(0, message.retainNumber != 0, pending);
            int length = pending.writerIndex() - start - RECORD_HEADER;
            pending.setInt(start, length);
            pending.setInt(start + Integer.BYTES, checkSum(sum, pending.nioBuffer(start + RECORD_HEADER, length)));
            segmentBytes += RECORD_HEADER + length;
            if (pending.readableBytes() >= WRITE_BYTES) {
                drain();
            }
            if (segmentBytes >= SEGMENT_BYTES) {
                drain();
                stream = null; // closed by the next force
            }
        } catch (IOException e) {
            fail(e);
        }
    }

    static int checkSum(CRC32C sum, ByteBuffer bytes) {
        sum.reset();
        sum.update(bytes);
        return (int) sum.getValue();
    }

    private void begin(long number) throws IOException {
        Path path = folder.path().resolve("%019d%s".formatted(number, SUFFIX));
        stream = new FileOutputStream(path.toFile());
        unforced.add(stream);
        segments.add(new Segment(number, path));
        segmentBytes = 0;
        namesUnforced = true;
    }

    private void drain() throws IOException {
        pending.readBytes(stream, pending.readableBytes());
        pending.clear();
        if (pending.capacity() > 2 * WRITE_BYTES) {
            pending.capacity(WRITE_BYTES); // after a large message
        }
    }

    /** Deletes the segments that have only messages below a number. */
    void keepFrom(long number) {
        while (segments.size() > 1) {
            Segment oldest = segments.remove();
            if (segments.peek().first() > number) {
                segments.addFirst(oldest);
                return;
            }
            try {
                Files.deleteIfExists(oldest.path());
            } catch (IOException e) {
                fail(e);
            }
        }
    }

    /** Returns true once all messages appended so far would survive a power cut, false if the disk failed; lock not held. */
    boolean force() {
        long needed = appended;
        if (forced < needed) {
            synchronized (forcing) {
                if (forced < needed) {
                    forceAppended();
                }
            }
        }
        return forced >= needed;
    }

    private void forceAppended() {
        try {
            List<FileOutputStream> streams;
            FileOutputStream current;
            boolean names;
            long target;
            lock.lock();
            try {
                if (failed) {
                    return;
                }
                if (stream != null) {
                    drain();
                }
                streams = List.copyOf(unforced);
                current = stream;
                names = namesUnforced;
                target = appended;
                unforced.removeIf(each -> each != current);
                namesUnforced = false;
            } finally {
                lock.unlock();
            }
            for (FileOutputStream each : streams) {
                each.getFD().sync();
                if (each != current) {
                    each.close();
                }
            }
            if (names) {
                SpoolFolder.forceNames(folder.path());
            }
            forced = target;
        } catch (IOException e) {
            lock.lock();
            try {
                fail(e);
            } finally {
                lock.unlock();
            }
        }
    }

    private void fail(IOException error) {
        if (!failed) {
            failed = true;
            LOG.warn("messages that the broker has not saved yet do not survive a power cut of this machine any more,"
                    + " since they cannot be written to '{}': {}", folder.path(), error.toString());
            pending.clear();
        }
    }

    /** Leaves the messages on disk to the next process. */
    void leave() {
        force();
        close();
        folder.release();
    }

    /** Deletes all messages: the broker has had them for long enough. */
    void delete() {
        close();
        folder.delete();
    }

    private void close() {
        lock.lock();
        try {
            failed = true; // nothing is appended from now on
            for (FileOutputStream each : unforced) {
                each.close();
            }
            unforced.clear();
        } catch (IOException e) {
            LOG.debug("{}: {}", folder.path(), e.toString());
        } finally {
            lock.unlock();
        }
    }
}
