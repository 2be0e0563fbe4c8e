package io.speck.flink.mqtt;

import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.writer.MqttSink;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.accumulators.DoubleCounter;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Measures the link from a task to the sink broker, by messages to the sink topic, which nobody should read: the round
 * trip by the acknowledgements of small messages, one at a time, then the bandwidth by batches of large ones.
 *
 * <p>The results are accumulators: {@code rttMillis}, {@code bytesPerSecond} and {@code probeBytes}. It takes some three
 * seconds on any link, and sends 4 MiB at most.
 */
public final class LinkProbe {
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final int TRIPS = 20;
    private static final int BLOCK_BYTES = 16 << 10;
    private static final int MOST_BYTES = 4 << 20;
    /** No further batch begins after that; each is twice the one before. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    private LinkProbe() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        SinkSettings settings = job.sink(FlinkMqttSink.texts()).flushTimeout(TIMEOUT).build().settings();
        job.environment().configure(new Configuration().set(RestartStrategyOptions.RESTART_STRATEGY, "none"));
        job.environment().fromData(job.argument("sink-topic", "")).map(new Probe(settings)).name("probe")
                .sinkTo(new DiscardingSink<>());
        job.environment().execute(job.name());
    }

    private static final class Probe extends RichMapFunction<String, String> {
        private static final long serialVersionUID = 1L;

        private final SinkSettings settings;

        Probe(SinkSettings settings) {
            this.settings = settings;
        }

        @Override
        public String map(String topic) throws Exception {
            DoubleCounter rtt = new DoubleCounter();
            DoubleCounter bandwidth = new DoubleCounter();
            LongCounter bytes = new LongCounter();
            getRuntimeContext().addAccumulator("rttMillis", rtt);
            getRuntimeContext().addAccumulator("bytesPerSecond", bandwidth);
            getRuntimeContext().addAccumulator("probeBytes", bytes);
            try (MqttSink sink = new MqttSink(settings)) {
                long rttNanos = roundTrip(sink, topic);
                rtt.add(rttNanos / 1e6);
                bandwidth.add(bandwidth(sink, topic, rttNanos, bytes));
            }
            return topic;
        }

        private static long roundTrip(MqttSink sink, String topic) throws InterruptedException {
            long[] nanos = new long[TRIPS];
            send(sink, topic, 1, 1); // the first one may wait for the connection
            for (int i = 0; i < TRIPS; i++) {
                nanos[i] = send(sink, topic, 1, 1);
            }
            Arrays.sort(nanos);
            return (nanos[(TRIPS - 1) / 2] + nanos[TRIPS / 2]) / 2;
        }

        /** The bandwidth by the last batch, whose acknowledgement comes a round trip after its end. */
        private static double bandwidth(MqttSink sink, String topic, long rttNanos, LongCounter bytes)
                throws InterruptedException {
            long begin = System.nanoTime();
            double last = 0;
            for (int blocks = 1; System.nanoTime() - begin < PATIENCE_NANOS
                    && bytes.getLocalValuePrimitive() + (long) blocks * BLOCK_BYTES <= MOST_BYTES; blocks *= 2) {
                long nanos = send(sink, topic, blocks, BLOCK_BYTES);
                bytes.add((long) blocks * BLOCK_BYTES);
                last = blocks * BLOCK_BYTES * 1e9 / Math.max(nanos - rttNanos, nanos / 2);
            }
            return last;
        }

        /** Returns the time until all are acknowledged. */
        private static long send(MqttSink sink, String topic, int messages, int size) throws InterruptedException {
            byte[] payload = new byte[size];
            long begin = System.nanoTime();
            for (int i = 0; i < messages; i++) {
                sink.send(topic, payload, null, null, null);
            }
            sink.flush();
            return System.nanoTime() - begin;
        }
    }
}
