package io.speck.connector.probe;

import io.speck.connector.Brokers;
import io.speck.connector.MessageSink;
import io.speck.mqtt.SinkSettings;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * Measures the link from this process to a broker, by messages to a topic that nobody should read: the round trip by
 * the acknowledgements of small messages, one at a time, then the bandwidth by batches of large ones.
 *
 * <p>It takes some three seconds on any link, and sends 4 MiB at most.
 *
 * @param rttMillis the median time to an acknowledgement
 * @param bytesPerSecond the bandwidth by the last batch
 * @param probeBytes the bytes that the batches had
 */
public record LinkProbe(double rttMillis, double bytesPerSecond, long probeBytes) {
    private static final int TRIPS = 20;
    private static final int BLOCK_BYTES = 16 << 10;
    private static final int MOST_BYTES = 4 << 20;
    /** No further batch begins after that; each is twice the one before. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** Measures the link. */
    public static LinkProbe measure(SinkSettings settings, String topic) throws InterruptedException {
        try (MessageSink sink = Brokers.of(settings.login()).sink(settings, false)) {
            return bandwidth(sink, topic, roundTrip(sink, topic));
        }
    }

    /** Sends one byte, to see that the broker is reached; the bandwidth is not measured. */
    public static LinkProbe reach(SinkSettings settings, String topic) throws InterruptedException {
        try (MessageSink sink = Brokers.of(settings.login()).sink(settings, false)) {
            send(sink, topic, 1, 1); // waits for the connection
            return new LinkProbe(send(sink, topic, 1, 1) / 1e6, 0, 0);
        }
    }

    private static long roundTrip(MessageSink sink, String topic) throws InterruptedException {
        long[] nanos = new long[TRIPS];
        send(sink, topic, 1, 1); // the first one may wait for the connection
        for (int i = 0; i < TRIPS; i++) {
            nanos[i] = send(sink, topic, 1, 1);
        }
        Arrays.sort(nanos);
        return (nanos[(TRIPS - 1) / 2] + nanos[TRIPS / 2]) / 2;
    }

    /** The acknowledgement of a batch comes a round trip after its end. */
    private static LinkProbe bandwidth(MessageSink sink, String topic, long rttNanos) throws InterruptedException {
        long begin = System.nanoTime();
        long bytes = 0;
        double last = 0;
        for (int blocks = 1; System.nanoTime() - begin < PATIENCE_NANOS
                && bytes + (long) blocks * BLOCK_BYTES <= MOST_BYTES; blocks *= 2) {
            long nanos = send(sink, topic, blocks, BLOCK_BYTES);
            bytes += (long) blocks * BLOCK_BYTES;
            last = blocks * BLOCK_BYTES * 1e9 / Math.max(nanos - rttNanos, nanos / 2);
        }
        return new LinkProbe(rttNanos / 1e6, last, bytes);
    }

    /** Returns the time until all are acknowledged. */
    private static long send(MessageSink sink, String topic, int messages, int size) throws InterruptedException {
        byte[] payload = new byte[size];
        long begin = System.nanoTime();
        for (int i = 0; i < messages; i++) {
            sink.send(topic, payload, null, null, null);
        }
        sink.flush();
        return System.nanoTime() - begin;
    }
}
