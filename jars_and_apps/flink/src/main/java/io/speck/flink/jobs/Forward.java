package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;

/** Hands every message on, with the name of the argument {@code site} as a last field (none when empty). */
public final class Forward {
    private Forward() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        String site = job.argument("site", "");
        job.write(site.isEmpty() ? job.texts() : job.texts().map(line -> line + "," + site).name("forward"));
        job.execute();
    }
}
