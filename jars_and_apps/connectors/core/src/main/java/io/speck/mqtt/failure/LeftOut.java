package io.speck.mqtt.failure;

import io.speck.connector.Brokers;
import io.speck.connector.MessageSink;
import io.speck.connector.writer.RefusedMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SinkSettings;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Leaves out messages on which a job's code failed, and results that a broker does not accept: counts them, and
 * publishes them to the topic for parked messages.
 *
 * <p>A parked message has its content and its key, and as user properties {@link #ERROR}, {@link #JOB}, {@link #TOPIC}
 * or {@link #SINK_TOPIC}, and {@link #TIME}. Of one that is too large for the parking broker too, only the beginning of
 * its content is published, with {@link #SIZE}. It may be published again after a restart, and to a broker that may have
 * lost it.
 */
public final class LeftOut implements AutoCloseable {
    /** User property: the error in one line. */
    public static final String ERROR = "speck-error";
    /** User property: the job whose code failed, or whose result was not accepted. */
    public static final String JOB = "speck-error-job";
    /** User property: the topic from which the message came. */
    public static final String TOPIC = "speck-error-topic";
    /** User property: the topic to which a result could not be written. */
    public static final String SINK_TOPIC = "speck-error-sink-topic";
    /** User property: when it was parked, ISO 8601, UTC. */
    public static final String TIME = "speck-error-time";
    /** User property: the size of the whole content in bytes, where the content was shortened. */
    public static final String SIZE = "speck-error-size";

    private static final int LONGEST_KEY = 65_535;
    private static final int LONGEST_TEXT = 1000;
    /** More than {@link #SIZE} takes on the wire, with its value. */
    private static final int SIZE_BYTES = 5 + SIZE.length() + 12;

    /** Brokers refuse these in a text (MQTT 5, 1.5.4), and an error may quote them from the message. */
    private static final String UNPRINTABLE = "[\\p{Cc}\\p{Cs}\\p{Cn}]";

    private final OnError onError;
    private final SinkSettings parking;
    private MessageSink sink;
    private volatile long skipped;
    private volatile long parked;

    /**
     * Begins to send what an earlier process parked and the broker may have lost.
     *
     * @param parking settings of the writer of parked messages
     */
    public LeftOut(OnError onError, SinkSettings parking) {
        this.onError = onError;
        this.parking = parking;
        if (parks()) {
            Brokers.of(parking.login()).takeOver(parking);
        }
    }

    private boolean parks() {
        return onError.treatment() == OnError.Treatment.PARK;
    }

    /** Leaves a message out on which the code failed; {@link #flush} waits until it is parked. One thread at a time. */
    public void add(String topic, byte[] payload, String key, String reason) throws InterruptedException {
        add(TOPIC, topic, payload, key == null ? null : key.getBytes(StandardCharsets.UTF_8), reason);
    }

    /** Leaves a result out that its broker does not accept; {@link #flush} waits until it is parked. */
    void addResult(RefusedMessage result) throws InterruptedException {
        add(SINK_TOPIC, result.topic(), result.payload(), result.key(), result.reason());
    }

    private void add(String side, String topic, byte[] payload, byte[] key, String reason) throws InterruptedException {
        if (!parks()) {
            skipped++;
            return;
        }
        if (sink == null) {
            sink = Brokers.of(parking.login()).sink(parking, true);
        }
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put(ERROR, shortened(reason.replaceAll(UNPRINTABLE, "?")));
        properties.put(JOB, onError.job());
        properties.put(side, shortened(topic));
        properties.put(TIME, Instant.now().truncatedTo(ChronoUnit.MILLIS).toString());
        sink.send(onError.parkTopic(), payload, key == null || key.length > LONGEST_KEY ? null : key, properties);
        parked++;
        if (sink.hasRefused()) {
            parkShortened(); // else they would wait in memory for the flush
        }
    }

    private static String shortened(String text) {
        return text.length() <= LONGEST_TEXT ? text : text.substring(0, LONGEST_TEXT - 3) + "...";
    }

    /** Publishes the beginning of messages that are too large for the parking broker, once; true if there were any. */
    private boolean parkShortened() throws InterruptedException {
        List<RefusedMessage> refused = sink.takeRefused();
        for (RefusedMessage each : refused) {
            if (each.properties().containsKey(SIZE)) {
                throw new BrokerException("a message cannot be parked, even without its content: " + each.reason(), true);
            }
            Map<String, String> properties = new LinkedHashMap<>(each.properties());
            properties.put(SIZE, Integer.toString(each.payload().length));
            int most = (int) Math.max(0, Math.min(each.payload().length, each.most() - SIZE_BYTES));
            sink.send(each.topic(), Arrays.copyOf(each.payload(), most), most == 0 ? null : each.key(), properties);
        }
        return !refused.isEmpty();
    }

    /**
     * Waits until the broker has acknowledged all parked messages.
     *
     * @throws BrokerException if it refuses the topic, or a message even without its content
     */
    public void flush() throws InterruptedException {
        if (sink == null) {
            return;
        }
        do {
            sink.flush();
        } while (parkShortened());
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
