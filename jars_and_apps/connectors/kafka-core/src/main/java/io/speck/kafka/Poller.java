package io.speck.kafka;

import io.speck.connector.reader.Losses;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The thread that uses a reader's consumer: it polls data and control records, and commits to the session's group.
 *
 * <p>A broker that is away ends nothing: the consumer connects again by itself, and a commit that fails is repeated.
 */
final class Poller implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Poller.class);
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration LAST_COMMIT = Duration.ofSeconds(5);
    private static final long JOIN_MILLIS = 10_000;
    /** Offsets of a group without members expire, by default 7 days after their last commit. */
    private static final long IDLE_COMMIT_NANOS = TimeUnit.HOURS.toNanos(1);
    private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** The reader of the messages; called in the poller's thread. */
    interface Reader {
        /** @throws MqttException to end the reader */
        void control(ConsumerRecord<byte[], byte[]> record);

        /** True if a message is of a writer that the reader does not know by now. */
        boolean needsWriters(KafkaMessage message);

        void arrived(List<KafkaMessage> messages);

        /** True if the reader has no room for further messages. */
        boolean full();

        /** Returns the offsets to commit; null if there are no new ones. */
        Map<Integer, Long> takeCommit();

        /** The number of messages committed so far. */
        long messages();

        void commitFailed();

        /**
         * Reports messages that are lost.
         *
         * @param count the number known for certain
         * @throws DataLossException to end the reader
         */
        void lost(String reason, long count, String cause);

        /** Tells where the consumer is, at a time when it has returned all before. */
        void reached(int partition, long offset);

        void failed(MqttException error);
    }

    private final SourceSettings settings;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final String topicId;
    private final Reader reader;
    private final Collection<TopicPartition> data;
    private final TopicPartition control;
    private final Thread thread;
    private final RecordDecoder decoder;
    private final UnknownWriters unknownWriters = new UnknownWriters();
    private volatile boolean closing;
    private volatile boolean connected = true;
    private long lookedNanos = System.nanoTime();
    private boolean paused;
    private boolean committing;
    private Map<Integer, Long> lastCommit;
    private long commitAfterNanos;

    /** @param consumer assigned to its partitions, at their places */
    Poller(SourceSettings settings, KafkaConsumer<byte[], byte[]> consumer, String topicId, Reader reader,
            Collection<TopicPartition> data, TopicPartition control) {
        this.settings = settings;
        this.consumer = consumer;
        this.topicId = topicId;
        this.reader = reader;
        this.data = data;
        this.control = control;
        this.decoder = new RecordDecoder(settings.clientId());
        this.commitAfterNanos = System.nanoTime();
        this.thread = new Thread(this::run, "kafka-" + settings.clientId());
        thread.setDaemon(true);
        thread.start();
    }

    /** The id of the topic, as the reader opened. */
    String topicId() {
        return topicId;
    }

    boolean connected() {
        return connected;
    }

    private void run() {
        try {
            while (!closing) {
                step();
            }
            commitLast();
        } catch (WakeupException | InterruptException e) {
            LOG.debug("{}: the reader ends", settings.session());
        } catch (MqttException e) {
            reader.failed(e);
        } catch (KafkaException e) {
            reader.failed(new BrokerException("broker " + settings.login() + ": topic '" + settings.topic() + "': "
                    + e.getMessage(), e instanceof AuthorizationException));
        } catch (RuntimeException | Error e) { // the task would not learn of it otherwise
            reader.failed(new BrokerException(settings.session() + ": " + e, e));
        } finally {
            closeConsumer();
        }
    }

    private void closeConsumer() {
        try {
            consumer.close(CloseOptions.timeout(Duration.ZERO));
        } catch (KafkaException e) {
            LOG.debug("{}: {}", settings.session(), e.getMessage());
        }
    }

    private void step() {
        pauseIfFull();
        commitIfDue();
        ConsumerRecords<byte[], byte[]> records;
        try {
            records = consumer.poll(POLL);
        } catch (OffsetOutOfRangeException e) {
            tryToSkipDeleted(e.offsetOutOfRangePartitions());
            return;
        }
        records.records(control).forEach(reader::control);
        for (TopicPartition each : data) {
            List<KafkaMessage> arrived = records.records(each).stream().map(decoder::decode).toList();
            if (!arrived.isEmpty()) {
                readWriters(arrived);
                reader.arrived(arrived);
            }
        }
        lookOnce();
    }

    private void lookOnce() {
        long now = System.nanoTime();
        if (now - lookedNanos > RETRY_NANOS) {
            lookedNanos = now;
            data.forEach(each -> reader.reached(each.partition(), consumer.position(each)));
            connected = consumer.metrics().entrySet().stream()
                    .filter(each -> each.getKey().name().equals("connection-count"))
                    .mapToDouble(each -> (Double) each.getValue().metricValue()).sum() > 0;
        }
    }

    private void pauseIfFull() {
        boolean full = reader.full();
        if (full != paused) {
            paused = full;
            if (full) {
                consumer.pause(data);
            } else {
                consumer.resume(data);
            }
        }
    }

    // ---- the order between the two logs ----

    /**
     * Reads the control topic up to its end before messages of writers that are not known: the coordinator names a writer
     * before it starts, in another log than the messages.
     */
    private void readWriters(List<KafkaMessage> arrived) {
        List<String> unknown = arrived.stream().filter(reader::needsWriters).map(each -> each.stamp().job()).toList();
        if (unknownWriters.isDue(unknown, System.nanoTime())) {
            readControl();
        }
    }

    private void readControl() {
        long end = controlEnd();
        consumer.pause(data);
        try {
            while (!closing && consumer.position(control) < end) {
                consumer.poll(POLL).records(control).forEach(reader::control);
            }
        } finally {
            paused = true; // as the next step finds
        }
    }

    /** Asks for as long as the broker is away: the messages that it is asked for are in hand. */
    private long controlEnd() {
        while (!closing) {
            try {
                return consumer.endOffsets(List.of(control)).get(control);
            } catch (RetriableException e) {
                LOG.debug("{}: {}", settings.session(), e.getMessage());
            }
        }
        return 0;
    }

    // ---- messages that are gone ----

    private void tryToSkipDeleted(Map<TopicPartition, Long> places) {
        try {
            skipDeleted(places);
        } catch (RetriableException e) { // the next poll finds the same
            LOG.debug("{}: {}", settings.session(), e.getMessage());
        }
    }

    /** Continues behind deleted messages; a place above the end is of another topic, or of a broker that lost some. */
    private void skipDeleted(Map<TopicPartition, Long> places) {
        Map<TopicPartition, Long> begins = consumer.beginningOffsets(places.keySet());
        Map<TopicPartition, Long> ends = consumer.endOffsets(places.keySet());
        places.forEach((partition, place) -> {
            long begin = begins.get(partition);
            boolean deleted = place < begin;
            if (!partition.equals(control)) {
                String where = " partition " + partition.partition() + " of topic '" + partition.topic() + "'";
                reader.lost(deleted ? Losses.RETENTION : Losses.SESSION, deleted ? begin - place : 0, deleted
                        ? "the messages " + place + " to " + (begin - 1) + " of" + where + " were deleted before they were read"
                        : "the place " + place + " in" + where + " is above its end " + ends.get(partition)
                        + ": the topic was made anew, or the broker lost its last messages");
            }
            consumer.seek(partition, deleted || madeAnew() ? begin : ends.get(partition));
        });
    }

    private boolean madeAnew() {
        try {
            return !Clients.topicId(settings).equals(topicId);
        } catch (InterruptedException e) {
            throw new InterruptException(e);
        }
    }

    // ---- commits to the group ----

    private void commitIfDue() {
        long now = System.nanoTime();
        if (committing || now - commitAfterNanos < 0) {
            return;
        }
        Map<Integer, Long> due = reader.takeCommit();
        if (due == null && lastCommit != null && now - commitAfterNanos > IDLE_COMMIT_NANOS) {
            due = lastCommit;
        }
        if (due == null) {
            return;
        }
        Map<Integer, Long> offsets = due;
        committing = true;
        consumer.commitAsync(offsets(offsets), (done, error) -> {
            committing = false;
            lastCommit = offsets;
            commitAfterNanos = System.nanoTime() + (error == null ? 0 : RETRY_NANOS);
            if (error != null) {
                LOG.debug("{}: the place was not committed: {}", settings.session(), error.getMessage());
                reader.commitFailed();
            }
        });
    }

    private void commitLast() {
        Map<Integer, Long> due = reader.takeCommit();
        if (due != null || committing) {
            try {
                consumer.commitSync(offsets(due == null ? lastKnown() : due), LAST_COMMIT);
            } catch (KafkaException e) { // the engine's state has the place
                LOG.debug("{}: the last place was not committed: {}", settings.session(), e.getMessage());
            }
        }
    }

    private Map<Integer, Long> lastKnown() {
        return lastCommit == null ? Map.of() : lastCommit;
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets(Map<Integer, Long> place) {
        return new Place(place).commits(settings, reader.messages());
    }

    @Override
    public void close() {
        closing = true;
        boolean interrupted = false;
        long deadline = System.currentTimeMillis() + JOIN_MILLIS;
        while (thread.isAlive() && System.currentTimeMillis() < deadline) {
            try {
                thread.join(Math.max(1, deadline - System.currentTimeMillis()));
            } catch (InterruptedException e) { // the last place is still committed
                interrupted = true;
            }
        }
        if (thread.isAlive()) {
            consumer.wakeup();
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
