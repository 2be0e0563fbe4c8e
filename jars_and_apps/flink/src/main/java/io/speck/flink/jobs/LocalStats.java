package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;

/**
 * Statistics of the readings of one site: a JSON object for each window that changed, which replaces the earlier one.
 * Arguments: {@code site}, {@code window} (15 minutes), {@code lateness} (2 days), {@code slowest} (3),
 * {@code ahead} (1 day): the code fails on a reading whose time is further ahead of the clock.
 */
public final class LocalStats {
    private LocalStats() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        Statistics.run(job, job.argument("site", ""));
    }
}
