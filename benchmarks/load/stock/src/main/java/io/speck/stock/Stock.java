package io.speck.stock;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Hands every message on with Flink's own connector for Kafka, with its own settings. */
public final class Stock {
    private Stock() {}

    public static void main(String[] words) throws Exception {
        Map<String, String> arguments = new HashMap<>();
        for (int i = 0; i + 1 < words.length; i += 2) {
            arguments.put(words[i].substring(2), words[i + 1]);
        }
        String name = arguments.get("job-name");
        String readServers = servers(arguments.get("source-broker"));
        String writtenServers = servers(arguments.get("sink-broker"));
        boolean exactly = arguments.getOrDefault("guarantee", "").equals("exactly_once");
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(readServers)
                .setTopics(arguments.get("source-topic"))
                .setGroupId(name)
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        KafkaSinkBuilder<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(writtenServers)
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                        .setTopic(arguments.get("sink-topic"))
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(exactly ? DeliveryGuarantee.EXACTLY_ONCE : DeliveryGuarantee.AT_LEAST_ONCE);
        if (exactly) {
            // By default an hour, which is above the most that a broker allows.
            sink.setTransactionalIdPrefix(name).setProperty("transaction.timeout.ms", "600000");
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink.build());
        environment.execute();
    }

    private static String servers(String address) {
        return address.replaceFirst("kafka://", "");
    }
}
