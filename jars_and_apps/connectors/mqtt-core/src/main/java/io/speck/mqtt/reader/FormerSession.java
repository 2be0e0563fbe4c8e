package io.speck.mqtt.reader;

import io.speck.connector.FormerBatch;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.SourceSettings;
import java.io.IOException;
import java.util.List;

/** The uncommitted batch of a session of MQTT that its job has left. */
final class FormerSession implements FormerBatch {
    private final MqttSource source;
    private final long end;

    private FormerSession(MqttSource source, long end) {
        this.source = source;
        this.end = end;
    }

    /** Opens the session; see {@link BatchRecord#reopen}. */
    static FormerSession open(SourceSettings settings, BatchRecord batch, BatchJournal journal, Losses losses)
            throws IOException, InterruptedException {
        MqttSource source = MqttSource.ofFormerSession(settings, journal, losses);
        try {
            source.open(batch.start(), batch.end());
            return new FormerSession(source, batch.end());
        } catch (BrokerException | DataLossException e) {
            source.close();
            throw e;
        }
    }

    @Override
    public void awaitWhole() throws IOException, InterruptedException {
        source.awaitWhole();
    }

    @Override
    public List<Message> messages(long start, long end) {
        return source.messages(start, end);
    }

    @Override
    public boolean commit(long offset) throws IOException {
        if (offset < end) {
            return false;
        }
        source.commit(end);
        source.close();
        return true;
    }

    @Override
    public void close() {
        source.close();
    }
}
