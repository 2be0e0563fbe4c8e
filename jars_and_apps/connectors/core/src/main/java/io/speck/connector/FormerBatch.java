package io.speck.connector;

import io.speck.connector.reader.Message;
import java.io.IOException;
import java.util.List;

/**
 * The uncommitted batch of a session that its job has left: the engine will request that batch before any other, and its
 * messages wait in that session, whose coordinator deletes it later.
 */
public interface FormerBatch extends AutoCloseable {
    /** Waits as {@link MessageSource#awaitWhole}. */
    void awaitWhole() throws IOException, InterruptedException;

    /** Returns the messages with the offsets [start, end), in order. */
    List<Message> messages(long start, long end);

    /** Acknowledges the batch if it is below the offset; true if nothing is left to do here. */
    boolean commit(long offset) throws IOException;

    @Override
    void close();
}
