package io.speck.connector;

import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.RefusedMessage;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.stamp.Stamp;
import java.util.List;
import java.util.Map;

/**
 * A writer, which publishes messages at least once, in order and with their stamps.
 *
 * <p>Not thread-safe.
 */
public interface MessageSink extends AutoCloseable {
    /**
     * Queues a message; waits while the queue is full, and while a session that receives it has no room.
     *
     * @param key null for none
     * @param job name of the writing job; null for a message without a stamp
     * @param sequence the rest of the stamp, see {@link Stamp}
     * @return the size of topic and payload, in bytes
     * @throws InvalidSettingException for an invalid topic name, or a key that is too long
     * @throws BrokerException if the broker rejected an earlier message
     */
    int send(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException;

    /**
     * As {@link #send}, but returns -1, without the message queued, if a session that receives it has no room, or the broker
     * is away.
     */
    int offer(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException;

    /**
     * Queues a message without a stamp, with properties of its own; waits while the queue is full. A broker that may have
     * lost it gets it again, as one with a stamp, so it may come twice.
     *
     * @param key null for none
     * @throws InvalidSettingException for an invalid topic name
     * @throws BrokerException if the broker rejected an earlier message
     */
    void send(String topic, byte[] payload, byte[] key, Map<String, String> properties) throws InterruptedException;

    /** True if {@link #takeRefused} has messages. */
    boolean hasRefused();

    /** Returns the messages of a lenient writer that the broker never accepts, as far as that is known by now. */
    List<RefusedMessage> takeRefused();

    /** Sends queued messages within a millisecond, without waiting for a full write or a flush. */
    void sendSoon();

    /**
     * Waits until the broker has acknowledged all messages of this writer.
     *
     * @throws BrokerException if it rejected a message, or did not acknowledge all within the flush time-out
     */
    void flush() throws InterruptedException;

    /**
     * As {@link #flush}, but drops and returns the messages that the broker has not acknowledged, in order, as soon as it is
     * away.
     */
    default List<UnsentMessage> flushUnlessAway() throws InterruptedException {
        flush();
        return List.of();
    }

    /** The acknowledgements of the broker to all writers of this process and login. */
    AckMetrics acks();

    /** Drops unacknowledged messages. */
    @Override
    void close();
}
