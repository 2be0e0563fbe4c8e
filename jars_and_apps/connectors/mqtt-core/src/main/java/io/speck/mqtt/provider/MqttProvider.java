package io.speck.mqtt.provider;

import io.speck.connector.BrokerProvider;
import io.speck.connector.MessageSink;
import io.speck.connector.MessageSource;
import io.speck.connector.RecordedBatch;
import io.speck.connector.reader.BatchJournal;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.net.Runtime;
import io.speck.mqtt.reader.BatchRecord;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.writer.MqttSink;
import java.io.IOException;

/** Brokers with MQTT 5. */
public final class MqttProvider implements BrokerProvider {
    @Override
    public boolean serves(BrokerAddress address) {
        return !address.kafka();
    }

    @Override
    public MessageSource batches(SourceSettings settings, BatchJournal journal) {
        return new MqttSource(settings, journal);
    }

    @Override
    public MessageSource streaming(SourceSettings settings, BatchJournal journal) {
        return MqttSource.streaming(settings, journal);
    }

    @Override
    public RecordedBatch recorded(byte[] record) throws IOException {
        return BatchRecord.isOne(record) ? BatchRecord.decode(record) : null;
    }

    @Override
    public MessageSink sink(SinkSettings settings, boolean lenient) throws InterruptedException {
        return new MqttSink(settings, lenient);
    }

    @Override
    public MessageSink offeringSink(SinkSettings settings, boolean lenient) {
        return MqttSink.offering(settings, lenient);
    }

    @Override
    public void takeOver(SinkSettings settings) {
        MqttSink.takeOver(settings);
    }

    @Override
    public String checkTopic(String name) {
        MqttSink.encodeTopic(name);
        return name;
    }

    @Override
    public String checkFilter(String filter) {
        return SourceSettings.filter(filter);
    }

    @Override
    public double eventLoop() {
        return Runtime.LOOP_COST.perRoot();
    }

    @Override
    public void stop() {
        Runtime.stop();
    }
}
