package io.speck.mqtt.writer;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;

/**
 * One writer. It publishes at QoS 1 over the connection that all writers of this process to this broker share; when the
 * connection is lost, all that the broker has not taken yet is sent again, in order and with the same stamps.
 *
 * <p>Not for several threads at once.
 */
public final class MqttSink implements AutoCloseable {
    private static final int LONGEST_STRING = 65535;

    private final SinkSettings settings;
    private final Publisher publisher;
    private String lastTopic;
    private byte[] lastTopicBytes;
    private boolean open = true;

    /** Guarded by the publisher's lock. */
    int outstanding;
    MqttException failure;
    boolean aborted;

    /**
     * @throws BrokerException when the broker cannot be reached within the flush time-out, or refuses
     */
    public MqttSink(SinkSettings settings) throws InterruptedException {
        this.settings = settings;
        this.publisher = Publishers.share(settings.login());
        try {
            publisher.awaitConnected(settings.flushTimeout());
        } catch (InterruptedException | RuntimeException e) {
            Publishers.release(publisher, this);
            throw e;
        }
    }

    /**
     * Hands a message over; waits while too many are on their way.
     *
     * @param key null for none
     * @param job name of the writing job; null for a message without a stamp
     * @param sequence the rest of the stamp, see {@link Stamp}
     * @throws InvalidSettingException for a topic that cannot be published to
     * @throws BrokerException when the broker did not take an earlier message
     */
    public void send(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence)
            throws InterruptedException {
        if (!topic.equals(lastTopic)) {
            lastTopicBytes = checked(topic);
            lastTopic = topic;
        }
        if (key != null && key.length > LONGEST_STRING) {
            throw new InvalidSettingException("a key of " + key.length + " bytes is too long (at most 65535)");
        }
        publisher.publish(new OutgoingMessage(this, topic, lastTopicBytes, payload, key, job, sequence),
                settings.flushTimeout());
    }

    /** Has what was handed over go out within a millisecond, and not only when there is much of it, or at a flush. */
    public void prompt() {
        publisher.pumpSoon();
    }

    /** The UTF-8 form of a topic name, once it is sure that one can publish to it (MQTT 5, 4.7). */
    public static byte[] checked(String topic) {
        byte[] bytes = topic.getBytes(StandardCharsets.UTF_8);
        boolean usable = bytes.length > 0 && bytes.length <= LONGEST_STRING
                && topic.indexOf('+') < 0 && topic.indexOf('#') < 0 && topic.indexOf(0) < 0;
        if (!usable) {
            throw new InvalidSettingException("'" + topic + "' is not a topic that can be written to"
                    + " (expected 1 to 65535 bytes without '+', '#' and U+0000)");
        }
        return bytes;
    }

    /**
     * Waits until the broker has taken all that this writer sent.
     *
     * @throws BrokerException when it refused a message, or did not take all within the flush time-out
     */
    public void flush() throws InterruptedException {
        publisher.flush(this, settings.flushTimeout());
    }

    /** Gives up what was not taken yet, and the share in the connection. */
    @Override
    public void close() {
        if (open) {
            open = false;
            Publishers.release(publisher, this);
        }
    }
}
