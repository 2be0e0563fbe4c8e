package io.speck.connector;

import io.speck.connector.reader.Message;
import io.speck.connector.reader.SourceMetrics;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Received;
import io.speck.mqtt.TakenOverException;
import java.io.IOException;
import java.util.List;

/**
 * A reader of one topic, which returns its messages under increasing offsets, the number of messages before each.
 *
 * <p>A message is acknowledged once the engine has committed its batch, never before. Each batch is recorded in the
 * engine's own state before its end offset is returned to the engine, so that after a crash the same batch is returned
 * again, and committed messages are not. A lost connection is re-established for as long as the reader is open.
 *
 * <p>An engine that works in batches calls {@link #await} and {@link #messages}, repeatedly if need be; one that works
 * on a stream uses {@link #whenAvailable} or {@link #await}, and {@link #take}, and closes the messages taken between two
 * of its checkpoints as one batch.
 *
 * <p>One thread of the engine at a time calls {@link #open}, {@link #await}, {@link #close(long, long, int)},
 * {@link #messages}, {@link #take} and {@link #commit}; the others may be called from any.
 */
public interface MessageSource extends AutoCloseable {
    /**
     * Continues at the engine's position, and connects.
     *
     * @param committedOffset all below it is committed
     * @param uncommittedEnd end of the batch that the engine will request again; the same offset if there is none
     * @throws BrokerException if the broker cannot be reached in time, or refuses the client
     * @throws DataLossException if the broker cannot have messages that are still needed
     * @throws TakenOverException if a newer attempt reads the session
     */
    void open(long committedOffset, long uncommittedEnd) throws IOException, InterruptedException;

    // ---- calls of an engine that works on a stream ----

    /** Calls {@code callback} once, in any thread, when {@link #take} can return a message, or throws. */
    void whenAvailable(Runnable callback);

    /**
     * Takes the next messages, {@code limit} at most; an empty list if there are none. Called once the engine has passed on
     * all that it took before: no batch ends before those, unless {@link #mayEndBefore}.
     */
    List<Received> take(int limit);

    /** True if a batch may end before messages that were taken, which a restart returns again. */
    default boolean mayEndBefore() {
        return false;
    }

    /** True if a drain marker waits for nothing but the commit of the messages below the offset. */
    default boolean isDrained(long offset) {
        return false;
    }

    /** True if messages taken should be committed soon: more may only come after that, or their commit is waited for. */
    boolean commitIsDue(long offset);

    // ---- calls of an engine that works in batches ----

    /**
     * Waits until the messages up to an offset are there, or the time is over.
     *
     * @return the offset after the last available message
     */
    long await(long targetEnd, long nanos) throws InterruptedException;

    /**
     * Waits until the uncommitted batch of before a restart is complete, or is recorded without the messages that do not
     * come.
     *
     * @throws DataLossException if the broker does not return its messages
     */
    void awaitWhole() throws IOException, InterruptedException;

    /**
     * Records the batch [start, end) so that it can be returned again after a crash; called before its end is returned
     * to the engine.
     *
     * @param partitions number of parts that the engine will split it into
     */
    void close(long start, long end, int partitions) throws IOException;

    /** Returns the recorded number of parts of the batch that starts here; 0 without a record. */
    int recordedPartitions(long start);

    /** Returns the messages of a batch, in order. */
    List<Message> messages(long start, long end);

    /** Acknowledges all messages below the offset, in order, once the engine has committed them. */
    void commit(long offset) throws IOException;

    /** Returns the counts of this reader. */
    SourceMetrics metrics();

    /** Disconnects; the broker keeps all unacknowledged messages. */
    @Override
    void close();
}
