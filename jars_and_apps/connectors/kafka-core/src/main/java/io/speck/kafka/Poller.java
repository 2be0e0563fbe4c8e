package io.speck.kafka;

import io.speck.connector.reader.Losses;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.LogTruncationException;
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
    /** The longest time in which the control topic is not looked at, as the engine is behind. */
    private static final long ROOM_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final Duration LAST_COMMIT = Duration.ofSeconds(5);
    private static final long JOIN_NANOS = TimeUnit.SECONDS.toNanos(10);
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

        /**
         * Waits until the reader has room for further messages.
         *
         * @return false if it has none after this time
         */
        boolean awaitRoom(long nanos) throws InterruptedException;

        /** Returns the place to commit; null if there is no new one. */
        Place takeCommit();

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

        /**
         * Continues in another topic of the same name; {@code times}: how often this has happened.
         *
         * @throws DataLossException to end the reader
         */
        void madeAnew(String topicId, long times, Map<Integer, Long> begins);

        /** Reads further partitions of the topic, which were added to it, from their beginning. */
        void added(List<Integer> partitions);

        /** Tells where the consumer is, at a time when it has returned all before. */
        void reached(int partition, long offset);

        void failed(MqttException error);
    }

    private final SourceSettings settings;
    private final Consumer<byte[], byte[]> consumer;
    private final TopicWatch watch;
    private final Reader reader;
    private List<TopicPartition> data;
    private final TopicPartition control;
    private final Thread thread;
    private final RecordDecoder decoder;
    private final UnknownWriters unknownWriters = new UnknownWriters();
    private volatile boolean closing;
    private volatile boolean connected = true;
    private long lookedNanos = System.nanoTime();
    private boolean paused;
    private boolean committing;
    /** The place that was committed last, or is under way. */
    private Place lastCommit;
    private long commitAfterNanos;

    /**
     * @param consumer assigned to its partitions, at their places
     * @param watch of the topic; it is closed at the end, like the consumer
     */
    Poller(SourceSettings settings, Consumer<byte[], byte[]> consumer, TopicWatch watch, Reader reader,
            List<TopicPartition> data, TopicPartition control) {
        this.settings = settings;
        this.consumer = consumer;
        this.watch = watch;
        this.reader = reader;
        this.data = data;
        this.control = control;
        this.decoder = new RecordDecoder(settings.clientId(), watch.present());
        this.commitAfterNanos = System.nanoTime();
        this.thread = new Thread(this::run, "kafka-" + settings.clientId());
        thread.setDaemon(true);
        thread.start();
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
            watch.close();
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
        boolean full = pauseIfFull();
        commitIfDue();
        ConsumerRecords<byte[], byte[]> records = poll(full ? Duration.ZERO : POLL);
        records.records(control).forEach(reader::control);
        for (TopicPartition each : data) {
            List<KafkaMessage> arrived = decoded(records.records(each));
            if (!arrived.isEmpty()) {
                readWriters(arrived);
                reader.arrived(arrived);
            }
        }
        lookOnce();
    }

    /** Returns the next records; none if a place is out of range. */
    private ConsumerRecords<byte[], byte[]> poll(Duration time) {
        try {
            return consumer.poll(time);
        } catch (OffsetOutOfRangeException e) {
            tryToContinue(e);
            return ConsumerRecords.empty();
        }
    }

    /**
     * Returns the place in a partition; empty while it is not known, for example as the partition's leader is out of reach.
     * The others are polled meanwhile, so this does not wait.
     */
    private OptionalLong position(TopicPartition partition) {
        try {
            return OptionalLong.of(consumer.position(partition, Duration.ZERO));
        } catch (OffsetOutOfRangeException e) {
            tryToContinue(e);
        } catch (RetriableException e) {
            LOG.debug("{}: {}", settings.session(), e.getMessage());
        }
        return OptionalLong.empty();
    }

    private List<KafkaMessage> decoded(List<ConsumerRecord<byte[], byte[]>> records) {
        List<KafkaMessage> messages = new ArrayList<>(records.size());
        for (ConsumerRecord<byte[], byte[]> each : records) {
            messages.add(decoder.decode(each));
        }
        return messages;
    }

    private void lookOnce() {
        long now = System.nanoTime();
        if (now - lookedNanos > RETRY_NANOS) {
            lookedNanos = now;
            lookAtTopic();
            data.stream().filter(each -> data.contains(each)) // they may change meanwhile
                    .forEach(each -> position(each).ifPresent(offset -> reader.reached(each.partition(), offset)));
            connected = consumer.metrics().entrySet().stream()
                    .filter(each -> each.getKey().name().equals("connection-count"))
                    .mapToDouble(each -> (Double) each.getValue().metricValue()).sum() > 0;
        }
    }

    /**
     * Waits for room rather than to poll what the engine is not ready for: meanwhile messages collect at the broker, and
     * come in fewer and larger fetches.
     *
     * @return true if there is no room, and only the control topic is polled
     */
    private boolean pauseIfFull() {
        boolean full = !roomCame();
        if (full != paused) {
            paused = full;
            if (full) {
                consumer.pause(data);
            } else {
                consumer.resume(data);
            }
        }
        return full;
    }

    private boolean roomCame() {
        try {
            return reader.awaitRoom(ROOM_NANOS);
        } catch (InterruptedException e) {
            throw new InterruptException(e);
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
            while (!closing && position(control).orElse(0) < end) {
                poll(POLL).records(control).forEach(reader::control);
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

    private void tryToContinue(OffsetOutOfRangeException error) {
        tryTo(() -> continueBehind(error));
    }

    /** Runs a step that the next poll or look finds due again, if the broker does not answer. */
    private void tryTo(Runnable step) {
        try {
            step.run();
        } catch (RetriableException e) {
            LOG.debug("{}: {}", settings.session(), e.getMessage());
        } catch (BrokerException e) {
            if (e.refused()) {
                throw e;
            }
            LOG.debug("{}: {}", settings.session(), e.getMessage());
        }
    }

    private void continueBehind(OffsetOutOfRangeException error) {
        Map<TopicPartition, Long> places = error.offsetOutOfRangePartitions();
        Set<TopicPartition> affected = new HashSet<>(places.keySet());
        affected.addAll(data);
        Map<TopicPartition, Long> begins = consumer.beginningOffsets(affected);
        Map<TopicPartition, Long> ends = consumer.endOffsets(places.keySet());
        boolean deleted = places.entrySet().stream().allMatch(each -> each.getValue() < begins.get(each.getKey()));
        TopicWatch.Topic topic = deleted ? watch.present() : present();
        if (watch.isAnother(topic)) {
            readAnew(topic, places.containsKey(control));
            return;
        }
        places.forEach((partition, place) -> {
            Continuation next = Continuation.of(partition, place, begins.get(partition), ends.get(partition),
                    divergent(error, partition));
            if (!partition.equals(control)) {
                reader.lost(next.reason(), next.count(), next.cause());
            }
            consumer.seek(partition, next.place());
        });
    }

    /** Returns the offset that the broker has named as the first one of other messages; null if it has not. */
    private static OffsetAndMetadata divergent(OffsetOutOfRangeException error, TopicPartition partition) {
        return error instanceof LogTruncationException truncation ? truncation.divergentOffsets().get(partition) : null;
    }

    private TopicWatch.Topic present() {
        try {
            return watch.ask();
        } catch (InterruptedException e) {
            throw new InterruptException(e);
        }
    }

    // ---- a topic that is deleted and made again, or gets further partitions ----

    private void lookAtTopic() {
        TopicWatch.Topic topic = watch.look();
        if (watch.isAnother(topic)) {
            tryTo(() -> readAnew(topic, false));
        } else if (topic.partitions() > data.size()) { // fewer: the broker lags behind the others
            readAdded(topic);
        }
    }

    /** Reads partitions that were added to the topic from offset 0: all of their messages came since. */
    private void readAdded(TopicWatch.Topic topic) {
        List<TopicPartition> added = topic.from(settings.topic(), data.size());
        LOG.info("{}: topic '{}' has {} partitions now, and had {}", settings.session(), settings.topic(),
                topic.partitions(), data.size());
        watch.reads(topic);
        decoder.partitionsAdded(topic);
        reader.added(added.stream().map(TopicPartition::partition).toList());
        List<TopicPartition> all = new ArrayList<>(data);
        all.addAll(added);
        assign(all);
        added.forEach(each -> consumer.seek(each, 0));
    }

    /**
     * Continues at the beginning of another topic of the same name.
     *
     * @param controlToo true if the control topic was made anew as well
     */
    private void readAnew(TopicWatch.Topic topic, boolean controlToo) {
        List<TopicPartition> partitions = topic.from(settings.topic(), 0);
        List<TopicPartition> anew = new ArrayList<>(partitions);
        if (controlToo) {
            anew.add(control);
        }
        Map<TopicPartition, Long> begins = consumer.beginningOffsets(anew);
        watch.reads(topic);
        reader.madeAnew(topic.id(), decoder.topicMadeAnew(topic), partitions.stream()
                .collect(Collectors.toMap(TopicPartition::partition, begins::get)));
        assign(partitions);
        begins.forEach(consumer::seek);
    }

    private void assign(List<TopicPartition> partitions) {
        List<TopicPartition> all = new ArrayList<>(partitions);
        if (consumer.assignment().contains(control)) {
            all.add(control);
        }
        consumer.assign(all);
        consumer.pause(partitions);
        paused = true; // as the next step finds
        data = partitions;
    }

    // ---- commits to the group ----

    private void commitIfDue() {
        long now = System.nanoTime();
        if (committing || now - commitAfterNanos < 0) {
            return;
        }
        Place due = reader.takeCommit();
        if (due == null && lastCommit != null && now - commitAfterNanos > IDLE_COMMIT_NANOS) {
            due = lastCommit;
        }
        if (due == null) {
            return;
        }
        committing = true;
        lastCommit = due;
        consumer.commitAsync(due.commits(settings, reader.messages()), (done, error) -> {
            committing = false;
            commitAfterNanos = System.nanoTime() + (error == null ? 0 : RETRY_NANOS);
            if (error != null) {
                LOG.debug("{}: the place was not committed: {}", settings.session(), error.getMessage());
                reader.commitFailed();
            }
        });
    }

    private void commitLast() {
        Place due = reader.takeCommit();
        Place last = due == null && committing ? lastCommit : due;
        if (last != null) {
            try {
                consumer.commitSync(last.commits(settings, reader.messages()), LAST_COMMIT);
            } catch (KafkaException e) { // the engine's state has the place
                LOG.debug("{}: the last place was not committed: {}", settings.session(), e.getMessage());
            }
        }
    }

    @Override
    public void close() {
        closing = true;
        boolean interrupted = false;
        long deadline = System.nanoTime() + JOIN_NANOS; // by no clock that may be set meanwhile
        for (long left = JOIN_NANOS; thread.isAlive() && left > 0; left = deadline - System.nanoTime()) {
            try {
                thread.join(1 + TimeUnit.NANOSECONDS.toMillis(left));
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
