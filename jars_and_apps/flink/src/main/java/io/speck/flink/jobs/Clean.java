package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;

/** Hands well-formed readings on, as they are; whatever else a sensor sent is dropped. */
public final class Clean {
    private Clean() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        job.write(job.texts().filter(Reading::wellFormed).name("clean"));
        job.execute();
    }
}
