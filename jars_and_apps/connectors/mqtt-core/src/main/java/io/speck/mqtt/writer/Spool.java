package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.speck.mqtt.net.Runtime;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
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
 * #force} makes what was appended survive a power cut, and must precede the acknowledgement of the input. The agent of
 * a site reads these files, too, to count messages ({@code binders/mqtt/spools.py}).
 *
 * <p>A disk that fails ends the spool, and no writer: messages are then held in memory alone, until another spool holds
 * them ({@link RenewableSpool}). A disk that stalls holds up writers ({@link #isBehind}) and the threads that force
 * messages, and no event loop: {@link #append} leaves the work at the disk to a thread in the background. A thread that is
 * interrupted here is no failure, so segments are streams: an interrupt closes a channel.
 */
final class Spool {
    static final String SUFFIX = ".log";
    static final int RECORD_HEADER = 8;
    private static final Logger LOG = LoggerFactory.getLogger(Spool.class);
    private static final int SEGMENT_BYTES = 1 << 20;
    /** Fewer and larger writes: the pages reach the disk by {@link #force} alone. */
    private static final int WRITE_BYTES = 64 << 10;
    private static final long MOST_QUEUED_BYTES = 8L << 20;

    private record Segment(long first, Path path) {}

    /** A part of the work at the disk. */
    private interface Step {
        void run() throws IOException;
    }

    /** The publisher's lock: guards the segments and the pending bytes. */
    private final ReentrantLock lock;
    private final SpoolFolder folder;
    private final Deque<Segment> segments = new ArrayDeque<>();
    private final ByteBuf pending = Unpooled.buffer(WRITE_BYTES / 4);
    private final CRC32C sum = new CRC32C();
    /** True while the last segment takes further messages. */
    private boolean open;
    private long segmentBytes;
    private volatile long appended;

    /** The work at the disk, in order. */
    private final Queue<Step> steps = new ConcurrentLinkedQueue<>();
    private final AtomicLong queuedBytes = new AtomicLong();
    private final AtomicBoolean scheduled = new AtomicBoolean();
    /**
     * Guards the streams; held by the one thread that works at the disk, without the lock. Of the threads that waited for it
     * to force messages, most find theirs forced as well.
     */
    private final Object disk = new Object();
    private final List<FileOutputStream> unforced = new ArrayList<>();
    private FileOutputStream stream;
    private boolean namesUnforced;
    private volatile boolean failed;
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
        if (!follows) {
            endSegment(); // a segment has consecutive numbers
        }
        if (!open) {
            begin(number);
        }
        int start = pending.writerIndex();
        pending.writeLong(0);
        message.encode(0, message.retainNumber != 0, pending);
        int length = pending.writerIndex() - start - RECORD_HEADER;
        pending.setInt(start, length);
        pending.setInt(start + Integer.BYTES, checkSum(sum, pending.nioBuffer(start + RECORD_HEADER, length)));
        segmentBytes += RECORD_HEADER + length;
        if (segmentBytes >= SEGMENT_BYTES) {
            endSegment();
        } else if (pending.readableBytes() >= WRITE_BYTES) {
            handOver();
        }
    }

    static int checkSum(CRC32C sum, ByteBuffer bytes) {
        sum.reset();
        sum.update(bytes);
        return (int) sum.getValue();
    }

    private void begin(long number) {
        Path path = folder.path().resolve("%019d%s".formatted(number, SUFFIX));
        segments.add(new Segment(number, path));
        segmentBytes = 0;
        open = true;
        steps.add(() -> create(path));
    }

    private void endSegment() {
        if (open) {
            handOver();
            open = false; // its stream is closed by a later force
        }
    }

    /** Has the pending bytes written in the background. */
    private void handOver() {
        steps.add(takePending());
        workSoon();
    }

    private Step takePending() {
        byte[] bytes = new byte[pending.readableBytes()];
        pending.readBytes(bytes);
        pending.clear();
        if (pending.capacity() > 2 * WRITE_BYTES) {
            pending.capacity(WRITE_BYTES); // after a large message
        }
        queuedBytes.addAndGet(bytes.length);
        return () -> write(bytes);
    }

    /** The id of its folder. */
    String id() {
        return folder.id();
    }

    /** True if the disk has failed, so that messages are held in memory alone. */
    boolean hasFailed() {
        return failed;
    }

    /** True while so much waits for the disk that writers should wait too. */
    boolean isBehind() {
        return queuedBytes.get() > MOST_QUEUED_BYTES;
    }

    /** Deletes the segments that have only messages below a number. */
    void keepFrom(long number) {
        while (segments.size() > 1) {
            Segment oldest = segments.remove();
            if (segments.peek().first() > number) {
                segments.addFirst(oldest);
                return;
            }
            steps.add(() -> Files.deleteIfExists(oldest.path()));
            workSoon();
        }
    }

    /** Returns true once all messages appended so far would survive a power cut, false if the disk failed; lock not held. */
    boolean force() {
        long needed = appended;
        if (forced < needed) {
            synchronized (disk) {
                if (forced < needed) {
                    forceAppended();
                }
            }
        }
        return forced >= needed;
    }

    // ---- the work at the disk; all but the first two with the disk held, and without the lock ----

    private void workSoon() {
        if (scheduled.compareAndSet(false, true)) {
            Runtime.BACKGROUND.execute(this::workInBackground);
        }
    }

    private void workInBackground() {
        synchronized (disk) {
            scheduled.set(false);
            work();
        }
    }

    /** Takes the steps that are due; segments are deleted also after the disk failed, as one does that is full. */
    private void work() {
        for (Step step = steps.poll(); step != null; step = steps.poll()) {
            try {
                step.run();
            } catch (IOException e) {
                fail(e);
            }
        }
    }

    private void create(Path segment) throws IOException {
        if (!failed) {
            stream = new FileOutputStream(segment.toFile());
            unforced.add(stream);
            namesUnforced = true;
        }
    }

    private void write(byte[] bytes) throws IOException {
        try {
            if (!failed) {
                stream.write(bytes);
            }
        } finally {
            queuedBytes.addAndGet(-bytes.length);
        }
    }

    private void forceAppended() {
        long target;
        lock.lock();
        try {
            steps.add(takePending());
            target = appended;
        } finally {
            lock.unlock();
        }
        work();
        try {
            if (!failed) {
                forceStreams();
                forced = target;
            }
        } catch (IOException e) {
            fail(e);
        }
    }

    private void forceStreams() throws IOException {
        for (FileOutputStream each : unforced) {
            each.getFD().sync();
            if (each != stream) {
                each.close();
            }
        }
        unforced.removeIf(each -> each != stream);
        if (namesUnforced) {
            SpoolFolder.forceNames(folder.path());
            namesUnforced = false;
        }
    }

    private void fail(IOException error) {
        if (!failed) {
            failed = true;
            LOG.warn("messages that the broker has not saved yet do not survive a power cut of this machine any more,"
                    + " since they cannot be written to '{}': {}", folder.path(), error.toString());
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
        synchronized (disk) {
            failed = true; // nothing is written from now on
            try {
                for (FileOutputStream each : unforced) {
                    each.close();
                }
            } catch (IOException e) {
                LOG.debug("{}: {}", folder.path(), e.toString());
            }
            unforced.clear();
        }
    }
}
