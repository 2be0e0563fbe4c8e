package io.speck.connector;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.connector.reader.ReaderCounts;
import io.speck.connector.reader.ReceiveBuffer;
import io.speck.connector.reader.Repetitions;
import io.speck.connector.reader.SourceMetrics;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** A reader whose messages wait in a {@link ReceiveBuffer} until they are committed, of any kind of broker. */
public abstract class BufferedSource implements MessageSource {
    protected final SourceSettings settings;
    protected final Losses losses;
    protected final Repetitions repetitions;
    /** Guards all that follows; what is thrown to the engine, or taken from the broker, changes under it. */
    protected final ReentrantLock lock = new ReentrantLock();
    /** Signalled when messages that the engine waits for have come, and when the reader has failed. */
    protected final Condition changed = lock.newCondition();
    protected final ReceiveBuffer buffer;
    protected final ReaderCounts counts = new ReaderCounts();
    /** The number of committed messages. */
    protected long committed;

    /** The uncommitted batch of before a restart, if the job has left its session; null otherwise. */
    private FormerBatch former;

    /** @param streaming true for an engine that takes each message once, as it arrives */
    protected BufferedSource(SourceSettings settings, boolean streaming, Losses losses) {
        this.settings = settings;
        this.losses = losses;
        this.repetitions = new Repetitions(settings);
        this.buffer = new ReceiveBuffer(streaming);
    }

    /** True if the reader is connected now; called under the lock. */
    protected abstract boolean connected();

    /** True while further messages wait at a broker that cannot count them; called under the lock. */
    protected boolean bufferFull() {
        return false;
    }

    /** Returns the number of lost connections that were re-established; called under the lock. */
    protected abstract long reconnections();

    // ---- the batch of a session that the job has left; in the thread of the engine ----

    /**
     * Opens the session of a batch that the engine will request again; a batch that is lost is reported. Another broker is
     * asked without a login: the present one is not shown to it.
     */
    protected void openFormer(RecordedBatch batch, BatchJournal journal) throws IOException, InterruptedException {
        String name = "the uncommitted batch [" + batch.start() + ", " + batch.end() + ") is of client '" + batch.session()
                + "' at broker " + batch.broker();
        boolean sameBroker = batch.broker().equals(settings.login().address().toString());
        if (batch.broker().isEmpty()) {
            losses.report(Losses.BATCH, batch.end() - batch.start(), name + " (its record does not name the broker)");
            return;
        }
        Login login = sameBroker ? settings.login() : Login.anonymous(batch.broker());
        try {
            former = batch.reopen(settings, login, journal, losses);
        } catch (BrokerException | DataLossException e) {
            if (sameBroker && e instanceof BrokerException) {
                throw e;
            }
            losses.report(Losses.BATCH, batch.end() - batch.start(), name + ": " + e.getMessage());
        }
    }

    /** True if the batch that the engine will request is of a session that the job has left. */
    protected boolean hasFormer() {
        return former != null;
    }

    protected void awaitFormer() throws IOException, InterruptedException {
        if (former != null) {
            former.awaitWhole();
        }
    }

    protected void commitFormer(long offset) throws IOException {
        if (former != null && former.commit(offset)) {
            former = null;
        }
    }

    protected void closeFormer() {
        if (former != null) {
            former.close();
        }
    }

    // ---- calls of the engine ----

    @Override
    public List<Message> messages(long start, long end) {
        if (former != null) {
            return former.messages(start, end);
        }
        lock.lock();
        try {
            return buffer.between(start, end);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public SourceMetrics metrics() {
        lock.lock();
        try {
            return counts.metrics(committed, buffer.next(), repetitions.counts(), losses, reconnections(), connected(),
                    bufferFull());
        } finally {
            lock.unlock();
        }
    }
}
