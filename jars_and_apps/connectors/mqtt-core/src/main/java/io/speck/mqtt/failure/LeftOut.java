package io.speck.mqtt.failure;

import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Leaves out messages on which a job's code failed: counts them, and publishes them to the topic for parked messages.
 *
 * <p>A parked message has its content and its key, and as user properties {@link #ERROR}, {@link #JOB}, {@link #TOPIC}
 * and {@link #TIME}. It may be published again after a restart.
 */
public final class LeftOut implements AutoCloseable {
    /** User property: the error in one line. */
    public static final String ERROR = "speck-error";
    /** User property: the job whose code failed. */
    public static final String JOB = "speck-error-job";
    /** User property: the topic from which the message came. */
    public static final String TOPIC = "speck-error-topic";
    /** User property: when it was parked, ISO 8601, UTC. */
    public static final String TIME = "speck-error-time";

    /** Brokers refuse these in a text (MQTT 5, 1.5.4), and an error may quote them from the message. */
    private static final String UNPRINTABLE = "[\\p{Cc}\\p{Cs}\\p{Cn}]";

    private final OnError onError;
    private final Login login;
    private final Duration timeout;
    private MqttSink sink;
    private volatile long skipped;
    private volatile long parked;

    /** @param timeout time limit of publishing */
    public LeftOut(OnError onError, Login login, Duration timeout) {
        this.onError = onError;
        this.login = login;
        this.timeout = timeout;
    }

    /** Leaves a message out; {@link #flush} waits until it is parked. One thread at a time. */
    public void add(String topic, byte[] payload, String key, String reason) throws InterruptedException {
        if (onError.treatment() != OnError.Treatment.PARK) {
            skipped++;
            return;
        }
        if (sink == null) {
            sink = new MqttSink(new SinkSettings(login, timeout));
        }
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put(ERROR, reason.replaceAll(UNPRINTABLE, "?"));
        properties.put(JOB, onError.job());
        properties.put(TOPIC, topic);
        properties.put(TIME, Instant.now().truncatedTo(ChronoUnit.MILLIS).toString());
        sink.send(onError.parkTopic(), payload, key == null ? null : key.getBytes(StandardCharsets.UTF_8),
                properties);
        parked++;
    }

    /** Waits until the broker has acknowledged all parked messages. */
    public void flush() throws InterruptedException {
        if (sink != null) {
            sink.flush();
        }
    }

    public long skipped() {
        return skipped;
    }

    public long parked() {
        return parked;
    }

    @Override
    public void close() {
        if (sink != null) {
            sink.close();
        }
    }
}
