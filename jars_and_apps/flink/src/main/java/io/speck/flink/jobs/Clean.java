package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;
import java.nio.charset.StandardCharsets;
import org.apache.flink.streaming.api.datastream.DataStream;

/** Hands well-formed readings on, as they are; whatever else a sensor sent is dropped, be it no text. */
public final class Clean {
    private Clean() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        job.writeBytes(clean(job.bytes()));
        job.execute();
    }

    static DataStream<byte[]> clean(DataStream<byte[]> contents) {
        return contents.filter(content -> Reading.wellFormed(new String(content, StandardCharsets.UTF_8)))
                .name("filter: clean");
    }
}
