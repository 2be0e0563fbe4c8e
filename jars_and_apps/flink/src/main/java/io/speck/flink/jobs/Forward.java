package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;
import org.apache.flink.streaming.api.datastream.DataStream;

/** Hands every message on, with the name of the argument {@code site} as a last field; without one as it is, text or not. */
public final class Forward {
    private Forward() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        job.write(forward(job.texts(), job.argument("site", "")));
        job.execute();
    }

    static DataStream<String> forward(DataStream<String> texts, String site) {
        return site.isEmpty() ? texts : texts.map(text -> text + "," + site).name("map: forward");
    }
}
