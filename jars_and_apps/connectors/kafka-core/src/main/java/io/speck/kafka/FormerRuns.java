package io.speck.kafka;

import io.speck.connector.FormerBatch;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.connector.reader.ReceiveBuffer;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.List;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The uncommitted batch of a topic that its job has left, read again by its runs. */
final class FormerRuns implements FormerBatch {
    private static final Logger LOG = LoggerFactory.getLogger(FormerRuns.class);

    private final SourceSettings settings;
    private final KafkaBatchRecord batch;
    private final ReceiveBuffer buffer = new ReceiveBuffer(false);

    private FormerRuns(SourceSettings settings, KafkaBatchRecord batch) {
        this.settings = settings;
        this.batch = batch;
        buffer.restore(batch.start(), batch.seen());
    }

    /** Reads the messages; see {@link KafkaBatchRecord#reopen}. */
    static FormerRuns open(SourceSettings present, Login login, KafkaBatchRecord batch, Losses losses)
            throws InterruptedException {
        SourceSettings settings = new SourceSettings(login, batch.session(), batch.topic(), present.receiveMaximum(),
                present.bufferBytes(), null, present.attempt(), present.failOnDataLoss(), present.connectTimeout());
        FormerRuns found = new FormerRuns(settings, batch);
        try (Opening opening = new Opening(settings, new Control(settings))) {
            opening.connect();
            if (!opening.topicId().equals(batch.topicId())) {
                throw new DataLossException(settings.session() + ": topic '" + batch.topic() + "' was made anew");
            }
            opening.readAgain(batch, losses).forEach(each -> each.addTo(found.buffer));
        } catch (KafkaException e) {
            throw Clients.translated(login, "topic '" + batch.topic() + "'", e);
        }
        return found;
    }

    /** The messages were read as the batch was opened. */
    @Override
    public void awaitWhole() {}

    @Override
    public List<Message> messages(long start, long end) {
        return buffer.between(start, end);
    }

    /** Commits the place behind the batch, without which the coordinator takes its messages for unread. */
    @Override
    public boolean commit(long offset) {
        if (offset < batch.end()) {
            return false;
        }
        KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(settings);
        try {
            consumer.commitSync(batch.after().commits(settings, batch.end()));
        } catch (KafkaException e) { // nothing is lost, and the session is deleted by its user
            LOG.warn("{}: the place behind the last batch was not committed: {}", settings.session(), e.getMessage());
        } finally {
            consumer.close(CloseOptions.timeout(Duration.ZERO));
        }
        return true;
    }

    @Override
    public void close() {}
}
