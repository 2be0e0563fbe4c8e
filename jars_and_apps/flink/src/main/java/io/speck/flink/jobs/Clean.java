package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;
import org.apache.flink.streaming.api.datastream.DataStream;

/** Hands well-formed readings on, as they are; whatever else a sensor sent is dropped. */
public final class Clean {
    private Clean() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        job.write(clean(job.texts()));
        job.execute();
    }

    static DataStream<String> clean(DataStream<String> texts) {
        return texts.filter(Reading::wellFormed).name("filter: clean");
    }
}
