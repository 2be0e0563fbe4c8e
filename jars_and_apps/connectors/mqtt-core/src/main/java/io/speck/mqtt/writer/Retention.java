package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ResendRequest;
import io.speck.mqtt.net.Runtime;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What one publisher does for a broker that forgets: it holds acknowledged messages ({@link RetransmissionBuffer}),
 * writes the {@link DeliveryMark} once a second meanwhile, and selects the messages to be sent again. Shares the
 * publisher's lock, which its callers hold unless said otherwise.
 */
final class Retention {
    private static final Logger LOG = LoggerFactory.getLogger(Retention.class);
    private static final long MARK_MILLIS = 1000;
    private static final int REQUESTS_REMEMBERED = 1000;

    private final ReentrantLock lock;
    private final RetransmissionBuffer buffer = new RetransmissionBuffer();
    private final DeliveryMark deliveryMark = new DeliveryMark();
    private final Set<String> handledRequests = new LinkedHashSet<>();
    private Connection connection;
    private long markedNumber;
    private boolean markScheduled;

    Retention(ReentrantLock lock) {
        this.lock = lock;
    }

    boolean isEmpty() {
        return buffer.isEmpty();
    }

    // ---- the connection ----

    /** Prepares for a new connection; called before it is opened, lock not held. */
    void reset() {
        deliveryMark.reset();
    }

    /** The filters to subscribe to on each connection. */
    List<String> filters() {
        return deliveryMark.filters();
    }

    /** See {@link DeliveryMark#read}; lock not held. */
    long readMark(Connection opened, boolean needed, Duration timeout) throws InterruptedException {
        return deliveryMark.read(opened, needed, timeout);
    }

    /** Uses this connection from now on; returns the messages that the broker may have lost, in order. */
    List<OutgoingMessage> connected(Connection opened, long delivered) {
        connection = opened;
        buffer.connected(System.nanoTime());
        return buffer.remove(message -> message.deliveryNumber > delivered);
    }

    void disconnected() {
        connection = null;
    }

    /** Deletes the mark: this publisher will not return. */
    void end() {
        if (connection != null) {
            deliveryMark.delete(connection);
            connection = null;
        }
    }

    // ---- answers of the broker ----

    /** Takes the mark from a message; false if the message is not the mark. Lock not held. */
    boolean acceptMark(MqttPublishMessage packet) {
        return deliveryMark.accept(packet);
    }

    /** Returns the messages that a reader requests whose session was lost; none for a repeated request. */
    List<OutgoingMessage> requested(MqttPublishMessage request) {
        String filter = request.payload().toString(StandardCharsets.UTF_8);
        if (filter.isEmpty() || !handledRequests.add(request.variableHeader().topicName())) {
            return List.of();
        }
        if (handledRequests.size() > REQUESTS_REMEMBERED) {
            handledRequests.remove(handledRequests.iterator().next());
        }
        LOG.info("the broker lost a session that reads '{}'", filter);
        return buffer.remove(message -> TopicFilter.matches(filter, message.topic));
    }

    /** The broker has answered the ping of {@link #readMark}; lock not held. */
    void answeredMark() {
        deliveryMark.answered();
    }

    /** The broker has answered on the present connection. */
    void answered() {
        buffer.answered(System.nanoTime());
    }

    // ---- messages ----

    /** Holds a message that the broker has acknowledged. */
    void hold(OutgoingMessage message) {
        buffer.add(message);
        if (!markScheduled) {
            markScheduled = true;
            Runtime.LOOPS.schedule(this::mark, MARK_MILLIS, TimeUnit.MILLISECONDS);
        }
    }

    /** Writes the number of the last acknowledged message to the mark, and lets the held messages age by a ping. */
    private void mark() {
        lock.lock();
        try {
            if (connection != null && markedNumber < buffer.lastNumber()) {
                markedNumber = buffer.lastNumber();
                deliveryMark.write(connection, markedNumber);
            }
            markScheduled = !buffer.isEmpty();
            if (markScheduled) {
                Runtime.LOOPS.schedule(this::mark, MARK_MILLIS, TimeUnit.MILLISECONDS);
                if (connection != null) {
                    connection.ping();
                }
            }
        } finally {
            lock.unlock();
        }
    }
}
