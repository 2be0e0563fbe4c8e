package io.speck.mqtt.reader;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import java.io.IOException;
import java.util.List;

/**
 * Completes the uncommitted batch of a session that its job has left: the engine will request that batch before any
 * other, and its messages wait in that session, whose coordinator deletes it later.
 */
final class FormerSession implements AutoCloseable {
    private final MqttSource source;
    private final long end;

    private FormerSession(MqttSource source, long end) {
        this.source = source;
        this.end = end;
    }

    /**
     * Opens the session of a recorded batch; null if the batch is lost, which is reported then.
     *
     * @param settings of the reader of the present session
     */
    static FormerSession open(SourceSettings settings, BatchRecord batch, BatchJournal journal, Losses losses)
            throws IOException, InterruptedException {
        String name = "the uncommitted batch [" + batch.start() + ", " + batch.end() + ") is of client '"
                + batch.clientId() + "' at broker " + batch.broker();
        boolean sameBroker = batch.broker().equals(settings.login().address().toString());
        if (!sameBroker && settings.login().hasSecrets()) {
            losses.report(Losses.BATCH, batch.end() - batch.start(), name + ", for which there is no login");
            return null;
        }
        Login login = sameBroker ? settings.login() : Login.anonymous(batch.broker());
        MqttSource source = MqttSource.ofFormerSession(settings.former(batch.clientId(), login), journal, losses);
        try {
            source.open(batch.start(), batch.end());
            return new FormerSession(source, batch.end());
        } catch (BrokerException | DataLossException e) {
            source.close();
            if (sameBroker && e instanceof BrokerException) {
                throw e;
            }
            losses.report(Losses.BATCH, batch.end() - batch.start(), name + ": " + e.getMessage());
            return null;
        }
    }

    void awaitWhole() throws IOException, InterruptedException {
        source.awaitWhole();
    }

    List<Message> messages(long start, long end) {
        return source.messages(start, end);
    }

    /** Acknowledges the batch if it is below the offset; true if nothing is left to do here. */
    boolean commit(long offset) throws IOException {
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
