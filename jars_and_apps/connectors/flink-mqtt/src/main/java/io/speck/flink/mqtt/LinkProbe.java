package io.speck.flink.mqtt;

import io.speck.mqtt.SinkSettings;
import java.time.Duration;
import org.apache.flink.api.common.accumulators.DoubleCounter;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Measures the link from a task to the sink broker by messages to the sink topic ({@link
 * io.speck.connector.probe.LinkProbe}); with the argument {@code reach true}, it sends one byte only. The results are
 * accumulators: {@code rttMillis}, {@code bytesPerSecond} and {@code probeBytes}.
 */
public final class LinkProbe {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private LinkProbe() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        SinkSettings settings = job.sink(FlinkMqttSink.texts()).flushTimeout(TIMEOUT).build().settings().sink();
        job.environment().configure(new Configuration().set(RestartStrategyOptions.RESTART_STRATEGY, "none"));
        job.environment().fromData(job.argument("sink-topic", ""))
                .map(new Probe(settings, Boolean.parseBoolean(job.argument("reach", "false")))).name("probe")
                .sinkTo(new DiscardingSink<>());
        job.environment().execute(job.name());
    }

    private static final class Probe extends RichMapFunction<String, String> {
        private static final long serialVersionUID = 1L;

        private final SinkSettings settings;
        private final boolean onlyReach;

        Probe(SinkSettings settings, boolean onlyReach) {
            this.settings = settings;
            this.onlyReach = onlyReach;
        }

        @Override
        public String map(String topic) throws Exception {
            var found = onlyReach ? io.speck.connector.probe.LinkProbe.reach(settings, topic)
                    : io.speck.connector.probe.LinkProbe.measure(settings, topic);
            LongCounter bytes = new LongCounter();
            bytes.add(found.probeBytes());
            getRuntimeContext().addAccumulator("rttMillis", new DoubleCounter(found.rttMillis()));
            getRuntimeContext().addAccumulator("bytesPerSecond", new DoubleCounter(found.bytesPerSecond()));
            getRuntimeContext().addAccumulator("probeBytes", bytes);
            return topic;
        }
    }
}
