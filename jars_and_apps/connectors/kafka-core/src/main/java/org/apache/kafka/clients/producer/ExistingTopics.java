package org.apache.kafka.clients.producer;

import java.util.Map;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.producer.internals.ProducerMetadata;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;

/**
 * Producers that ask for topics without having them made. A producer of Kafka asks for the metadata of its topics as of
 * ones that may be made, also by itself when one was deleted, and has no setting for this ({@code
 * allow.auto.create.topics} is a consumer's). A broker with {@code auto.create.topics.enable}, which is the default, then
 * makes a deleted topic again at once: with its own number of partitions, and with a retention by age that deletes
 * messages which no job has read.
 *
 * <p>In the package of the producer, whose constructor with other metadata is not public.
 */
public final class ExistingTopics {
    private ExistingTopics() {}

    /** Creates a producer of bytes with these settings. */
    public static KafkaProducer<byte[], byte[]> producer(Map<String, Object> options) {
        ByteArraySerializer bytes = new ByteArraySerializer();
        ProducerConfig config = new ProducerConfig(ProducerConfig.appendSerializerToConfig(options, bytes, bytes));
        ProducerMetadata metadata = metadata(config);
        ClientUtils.maybeBootstrapMetadataSynchronously(config, config.getList(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG),
                metadata);
        return new KafkaProducer<>(config, bytes, bytes, metadata, null, null, new ApiVersions(), Time.SYSTEM);
    }

    static ProducerMetadata metadata(ProducerConfig config) {
        return new ProducerMetadata(config.getLong(ProducerConfig.RETRY_BACKOFF_MS_CONFIG),
                config.getLong(ProducerConfig.RETRY_BACKOFF_MAX_MS_CONFIG),
                config.getLong(ProducerConfig.METADATA_MAX_AGE_CONFIG),
                config.getLong(ProducerConfig.METADATA_MAX_IDLE_CONFIG), new LogContext(), new ClusterResourceListeners()) {
            @Override
            public synchronized MetadataRequest.Builder newMetadataRequestBuilder() {
                return withoutNew(super.newMetadataRequestBuilder());
            }

            @Override
            public synchronized MetadataRequest.Builder newMetadataRequestBuilderForNewTopics() {
                return withoutNew(super.newMetadataRequestBuilderForNewTopics());
            }
        };
    }

    private static MetadataRequest.Builder withoutNew(MetadataRequest.Builder request) {
        return new MetadataRequest.Builder(request.topics(), false);
    }
}
