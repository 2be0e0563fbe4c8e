package io.speck.kafka;

import io.speck.connector.BrokerProvider;
import io.speck.connector.MessageSink;
import io.speck.connector.MessageSource;
import io.speck.connector.RecordedBatch;
import io.speck.connector.reader.BatchJournal;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import java.io.IOException;

/** Brokers with the protocol of Kafka. */
public final class KafkaProvider implements BrokerProvider {
    @Override
    public boolean serves(BrokerAddress address) {
        return address.kafka();
    }

    @Override
    public MessageSource batches(SourceSettings settings, BatchJournal journal) {
        return new KafkaSource(settings, journal, false);
    }

    @Override
    public MessageSource streaming(SourceSettings settings, BatchJournal journal) {
        return new KafkaSource(settings, journal, true);
    }

    @Override
    public RecordedBatch recorded(byte[] record) throws IOException {
        return KafkaBatchRecord.isOne(record) ? KafkaBatchRecord.decode(record) : null;
    }

    @Override
    public MessageSink sink(SinkSettings settings, boolean lenient) throws InterruptedException {
        return new KafkaSink(settings, lenient);
    }

    @Override
    public MessageSink offeringSink(SinkSettings settings, boolean lenient) throws InterruptedException {
        return new OfferingSink(settings, lenient);
    }

    @Override
    public void takeOver(SinkSettings settings) {
        // Nothing is on disk: the broker acknowledges what it has stored.
    }

    @Override
    public String checkTopic(String name) {
        return Topics.checked(name);
    }

    @Override
    public String checkFilter(String filter) {
        return Topics.checked(filter);
    }

    @Override
    public void stop() {
        Producers.closeAll();
    }
}
