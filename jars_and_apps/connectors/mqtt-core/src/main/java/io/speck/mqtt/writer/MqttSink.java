package io.speck.mqtt.writer;

import io.speck.connector.MessageSink;
import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.RefusedMessage;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.InvalidTextException;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.Utf8;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * One writer. It publishes at QoS 1 over the connection that all writers of this process to this broker share; after a
 * lost connection, all unacknowledged messages are sent again, in order and with the same stamps.
 *
 * <p>Not thread-safe.
 */
public final class MqttSink implements MessageSink {
    private static final int LONGEST_STRING = 65535;

    private final SinkSettings settings;
    private final Publisher publisher;
    private final Delivery delivery;
    private String lastTopic;
    private byte[] lastTopicBytes;
    private boolean open = true;

    /**
     * @throws BrokerException if the broker cannot be reached within the flush time-out, or refuses the client
     */
    public MqttSink(SinkSettings settings) throws InterruptedException {
        this(settings, false);
    }

    /**
     * @param lenient true to collect messages that the broker never accepts ({@link #takeRefused}), and not to fail
     * @throws BrokerException if the broker cannot be reached within the flush time-out, or refuses the client
     */
    public MqttSink(SinkSettings settings, boolean lenient) throws InterruptedException {
        this(settings, new Delivery(lenient, settings.retain()));
        try {
            publisher.awaitConnected(settings.flushTimeout());
        } catch (InterruptedException | RuntimeException e) {
            Publishers.release(publisher, delivery);
            throw e;
        }
    }

    private MqttSink(SinkSettings settings, Delivery delivery) {
        this.settings = settings;
        this.delivery = delivery;
        this.publisher = Publishers.acquire(settings.login(), settings.spool());
    }

    /** Creates a writer whose messages are offered, without waiting for the broker. */
    public static MqttSink offering(SinkSettings settings, boolean lenient) {
        return new MqttSink(settings, new Delivery(lenient, settings.retain()));
    }

    /** Sends in the background what earlier processes left on disk for this broker; for a process that may never write. */
    public static void takeOver(SinkSettings settings) {
        if (settings.spool() != null) {
            Publishers.takeOver(settings.login(), settings.spool());
        }
    }

    @Override
    public int send(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence)
            throws InterruptedException {
        publisher.publish(message(topic, payload, key, job, sequence), settings.flushTimeout());
        return lastTopicBytes.length + payload.length;
    }

    @Override
    public int offer(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence)
            throws InterruptedException {
        boolean room = publisher.offer(message(topic, payload, key, job, sequence), settings.flushTimeout());
        return room ? lastTopicBytes.length + payload.length : -1;
    }

    private OutgoingMessage message(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) {
        if (!topic.equals(lastTopic)) {
            lastTopicBytes = encodeTopic(topic);
            lastTopic = topic;
        }
        checkKey(key);
        return new OutgoingMessage(delivery, topic, lastTopicBytes, payload, key, job, sequence);
    }

    /** A user property is a text (MQTT 5, 1.5.4): a broker ends the connection of a client that sends another one. */
    private static void checkKey(byte[] key) {
        if (key == null) {
            return;
        }
        if (key.length > LONGEST_STRING) {
            throw new InvalidSettingException("a key of " + key.length + " bytes is too long (at most 65535)");
        }
        String fault = Utf8.fault(key);
        if (fault != null) {
            throw new InvalidSettingException("a key is not text: " + fault
                    + " (expected UTF-8, such as base64 of the bytes)");
        }
        String refused = Utf8.refusedCharacter(new String(key, StandardCharsets.UTF_8));
        if (refused != null) {
            throw new InvalidSettingException("a key contains " + refused
                    + ", which brokers refuse (expected text without it)");
        }
    }

    @Override
    public void send(String topic, byte[] payload, byte[] key, Map<String, String> properties)
            throws InterruptedException {
        OutgoingMessage.UserProperty[] more = properties.entrySet().stream()
                .map(each -> new OutgoingMessage.UserProperty(each.getKey().getBytes(StandardCharsets.UTF_8),
                        each.getValue().getBytes(StandardCharsets.UTF_8)))
                .toArray(OutgoingMessage.UserProperty[]::new);
        OutgoingMessage message =
                new OutgoingMessage(delivery, topic, encodeTopic(topic), payload, key, null, null, more);
        message.mayRepeat = true;
        publisher.publish(message, settings.flushTimeout());
    }

    @Override
    public boolean hasRefused() {
        return delivery.hasRefused;
    }

    @Override
    public List<RefusedMessage> takeRefused() {
        return publisher.takeRefused(delivery);
    }

    @Override
    public void sendSoon() {
        publisher.pumpSoon();
    }

    /**
     * Returns the UTF-8 form of a topic name (MQTT 5, 4.7).
     *
     * @throws InvalidSettingException if messages cannot be published to it
     */
    public static byte[] encodeTopic(String topic) {
        byte[] bytes;
        try {
            bytes = Utf8.encode(topic);
        } catch (InvalidTextException e) {
            throw new InvalidSettingException("'" + topic + "' is not a topic that can be written to: " + e.getMessage(), e);
        }
        boolean usable = bytes.length > 0 && bytes.length <= LONGEST_STRING
                && topic.indexOf('+') < 0 && topic.indexOf('#') < 0 && Utf8.refusedCharacter(topic) == null;
        if (!usable) {
            throw new InvalidSettingException("'" + topic + "' is not a topic that can be written to"
                    + " (expected 1 to 65535 bytes without '+', '#' and control characters)");
        }
        return bytes;
    }

    @Override
    public void flush() throws InterruptedException {
        publisher.flush(delivery, settings.flushTimeout());
    }

    @Override
    public List<UnsentMessage> flushUnlessAway() throws InterruptedException {
        return publisher.flushUnlessAway(delivery, settings.flushTimeout());
    }

    @Override
    public AckMetrics acks() {
        return publisher.acks();
    }

    /** Drops unacknowledged messages, and releases the shared connection. */
    @Override
    public void close() {
        if (open) {
            open = false;
            Publishers.release(publisher, delivery);
        }
    }
}
