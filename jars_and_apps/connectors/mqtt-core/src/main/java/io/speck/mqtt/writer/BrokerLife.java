package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Tells whether retained records at a broker are its own memory. A Mosquitto that is bridged to another one gets back
 * from there, after a restart, what it had before: a {@link DeliveryMark} that it never saved would claim messages that
 * it has lost.
 *
 * <p>Mosquitto reports its bridges and the time since its start below {@code $SYS}, which bridges do not carry. Another
 * broker, or one that lets nobody read {@code $SYS}, counts as one without bridges. Not thread-safe; guarded by the
 * publisher's lock.
 */
final class BrokerLife {
    static final String UPTIME = "$SYS/broker/uptime";
    static final String BRIDGES = "$SYS/broker/connection/";
    private static final Pattern SECONDS = Pattern.compile("(\\d{1,12}) seconds");
    /** Mosquitto publishes its uptime every {@code sys_interval}, of 10 s by default. */
    private static final long SLACK_SECONDS = 15;

    private boolean bridged;
    /** The seconds from the broker's start to the present connection; -1 if it has not said. */
    private long uptimeSeconds = -1;
    /** When the connection before this one was the publisher's last; 0 before the first. */
    private long lostNanos;

    /** The filters to subscribe to on each connection. */
    List<String> filters() {
        return List.of(UPTIME, BRIDGES + "+/state");
    }

    /** Prepares for a new connection; a bridge that was seen once may be configured still. */
    void reset() {
        uptimeSeconds = -1;
    }

    void disconnected(long nowNanos) {
        lostNanos = nowNanos;
    }

    /** Takes a report from a message; false if the message is none. */
    boolean accept(MqttPublishMessage packet) {
        String topic = packet.variableHeader().topicName();
        if (topic.startsWith(BRIDGES)) {
            bridged = true;
            return true;
        }
        if (!topic.equals(UPTIME)) {
            return false;
        }
        Matcher found = SECONDS.matcher(packet.payload().toString(StandardCharsets.UTF_8));
        if (uptimeSeconds < 0 && found.matches()) {
            uptimeSeconds = Long.parseLong(found.group(1));
        }
        return true;
    }

    /**
     * True if a mark that is there now may come from another broker: this one has a bridge, and may have been restarted
     * since this publisher lost its connection.
     */
    boolean mayHaveForeignRecords(long nowNanos) {
        long goneSeconds = TimeUnit.NANOSECONDS.toSeconds(nowNanos - lostNanos);
        return bridged && (lostNanos == 0 || uptimeSeconds < goneSeconds + SLACK_SECONDS);
    }
}
