package org.apache.kafka.clients.producer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.internals.ProducerMetadata;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;

/** The requests for metadata of a producer. */
class ExistingTopicsTest {
    private static final Map<String, Object> OPTIONS = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, "127.0.0.1:1",
            ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
            ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);

    @Test
    void noRequestHasATopicMade() {
        ProducerMetadata metadata = ExistingTopics.metadata(new ProducerConfig(OPTIONS));
        metadata.add("out", 0);
        for (MetadataRequest.Builder each : List.of(metadata.newMetadataRequestBuilder(),
                metadata.newMetadataRequestBuilderForNewTopics())) {
            MetadataRequest request = each.build();
            assertEquals(List.of("out"), request.topics());
            assertFalse(request.allowAutoTopicCreation());
        }
    }
}
