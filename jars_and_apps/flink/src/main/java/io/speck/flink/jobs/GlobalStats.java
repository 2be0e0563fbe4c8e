package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;

/** Statistics of the readings of all sites, as {@link LocalStats}; the site is {@code *}. */
public final class GlobalStats {
    private GlobalStats() {}

    public static void main(String[] arguments) throws Exception {
        Statistics.run(MqttJob.of(arguments), "*");
    }
}
