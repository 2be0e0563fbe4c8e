package io.speck.kafka;

import io.speck.connector.reader.Losses;
import io.speck.connector.reader.ReceiveBuffer;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The first requests of a reader, in the thread that opens it: the control topic to its end, the claim of the fence, the
 * place, and the messages of a batch that is run again.
 */
final class Opening implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(100);

    /**
     * A message of a batch that is run again, and its run in the batch's record.
     *
     * @param message null if the broker does not have it any more
     */
    record Again(KafkaMessage message, KafkaBatchRecord.Run run) {
        boolean lost() {
            return message == null && !run.duplicate();
        }

        /** Adds the message with the fate that it had. */
        void addTo(ReceiveBuffer buffer) {
            if (message == null) {
                if (!run.duplicate()) {
                    buffer.skip();
                }
                return;
            }
            if (!run.named()) {
                message.disbelieve();
            }
            if (!run.byPlace()) {
                message.places = null; // as before the topic got further partitions
            }
            buffer.add(message, run.duplicate());
        }
    }

    private final SourceSettings settings;
    private final Control control;
    private final TopicPartition controlPartition = new TopicPartition(Topics.CONTROL, 0);
    private final Consumer<byte[], byte[]> consumer;
    private final TopicWatch watch;
    /** When the broker has sent nothing for too long, in {@link System#nanoTime}. */
    private long deadline;
    private List<TopicPartition> data = List.of();
    private long controlPosition;
    private boolean handedOver;

    Opening(SourceSettings settings, Control control) {
        this(settings, control, Clients.consumer(settings), TopicWatch.of(settings));
    }

    Opening(SourceSettings settings, Control control, Consumer<byte[], byte[]> consumer, TopicWatch watch) {
        this.settings = settings;
        this.control = control;
        this.consumer = consumer;
        this.watch = watch;
        postpone();
    }

    private void postpone() {
        deadline = System.nanoTime() + settings.connectTimeout().toNanos();
    }

    /** Reads the control topic and claims the fence. */
    void connect() throws InterruptedException {
        watch.reads(watch.ask());
        data = watch.present().from(settings.topic(), 0);
        if (settings.fenceTopic() == null) {
            return;
        }
        checkControl();
        consumer.assign(List.of(controlPartition));
        consumer.seekToBeginning(List.of(controlPartition));
        readControl();
        claim();
        while (!control.claimed()) {
            checkTime();
            readControl();
        }
        controlPosition = consumer.position(controlPartition);
    }

    private void checkControl() {
        List<PartitionInfo> found = consumer.partitionsFor(Topics.CONTROL);
        if (found == null || found.isEmpty()) {
            throw new BrokerException("broker " + settings.login() + " has no topic '" + Topics.CONTROL
                    + "' (apply the composition again, which makes it)", true);
        }
    }

    private void readControl() {
        long end = consumer.endOffsets(List.of(controlPartition)).get(controlPartition);
        read(controlPartition, end, control::take);
    }

    /** Reads up to an offset. A batch takes its time over a slow link: only time in which nothing comes counts. */
    private void read(TopicPartition partition, long end,
            java.util.function.Consumer<ConsumerRecord<byte[], byte[]>> taken) {
        long position = consumer.position(partition);
        while (position < end) {
            consumer.poll(POLL).forEach(taken);
            long reached = consumer.position(partition);
            if (reached > position) { // also behind what is no record, such as that of a transaction which was aborted
                postpone();
            } else {
                checkTime();
            }
            position = reached;
        }
    }

    private void claim() throws InterruptedException {
        SinkSettings writer = new SinkSettings(settings.login(), settings.connectTimeout());
        Producers.Shared shared = Producers.acquire(writer);
        try {
            byte[] key = control.claimKey().getBytes(StandardCharsets.UTF_8);
            shared.producer.send(new ProducerRecord<>(Topics.CONTROL, 0, key, control.claim())).get();
        } catch (java.util.concurrent.ExecutionException e) {
            throw new BrokerException("broker " + settings.login() + ": the fence cannot be claimed: "
                    + e.getCause().getMessage(), e.getCause());
        } finally {
            Producers.release(shared, false);
        }
    }

    private void checkTime() {
        if (System.nanoTime() - deadline > 0) {
            throw new BrokerException("broker " + settings.login() + " sent nothing of what the reader needs to begin for "
                    + settings.connectTimeout().toSeconds() + " s", false);
        }
    }

    /** The id of the topic. */
    String topicId() {
        return watch.present().id();
    }

    /** The partitions of the topic. */
    List<Integer> partitions() {
        return data.stream().map(TopicPartition::partition).toList();
    }

    /**
     * The place to continue at: of the engine's state, or else of the session's group; the beginning of a topic that was
     * made anew.
     */
    Place place(Records.Recovered recovered) {
        if (recovered.place() != null) {
            return recovered.place();
        }
        if (recovered.madeAnew()) {
            Map<Integer, Long> begins = new HashMap<>();
            consumer.beginningOffsets(data).forEach((partition, offset) -> begins.put(partition.partition(), offset));
            return Place.at(begins);
        }
        Place committed = Place.committed(consumer.committed(new HashSet<>(data)));
        if (committed.isEmpty()) {
            throw new BrokerException("broker " + settings.login() + " has no place of session '" + settings.clientId()
                    + "' in topic '" + settings.topic() + "' (apply the composition again)", true);
        }
        return committed;
    }

    /**
     * Reads the messages of a batch again, and reports those that the broker does not have any more.
     *
     * @throws DataLossException if there are such ones, and the settings demand it
     */
    List<Again> readAgain(KafkaBatchRecord batch, Losses losses) {
        Map<Integer, Map<Long, ConsumerRecord<byte[], byte[]>>> found = new HashMap<>();
        for (int partition : batch.runs().stream().map(KafkaBatchRecord.Run::partition).collect(Collectors.toSet())) {
            boolean there = data.contains(new TopicPartition(settings.topic(), partition));
            found.put(partition, there ? read(batch, partition) : Map.of());
        }
        List<Again> messages = again(batch, found, new RecordDecoder(batch.session(), watch.present()));
        long lost = messages.stream().filter(Again::lost).count();
        if (lost > 0) {
            losses.report(Losses.BATCH, lost, "topic '" + settings.topic() + "' does not have " + lost
                    + " messages of the uncommitted batch [" + batch.start() + ", " + batch.end() + ") any more");
        }
        return messages;
    }

    /** Returns the messages of a batch, of the records that its topic has, by partition and offset. */
    static List<Again> again(KafkaBatchRecord batch, Map<Integer, Map<Long, ConsumerRecord<byte[], byte[]>>> found,
            RecordDecoder decoder) {
        List<Again> messages = new ArrayList<>();
        for (KafkaBatchRecord.Run run : batch.runs()) {
            Map<Long, ConsumerRecord<byte[], byte[]>> records = found.get(run.partition());
            for (long offset = run.first(); offset < run.end(); offset++) {
                ConsumerRecord<byte[], byte[]> record = records.get(offset);
                boolean there = record != null && run.isOf(record.leaderEpoch());
                messages.add(new Again(there ? decoder.decode(record) : null, run));
            }
        }
        return messages;
    }

    /** Returns the records of a partition that have offsets of a batch. */
    private Map<Long, ConsumerRecord<byte[], byte[]>> read(KafkaBatchRecord batch, int partition) {
        List<KafkaBatchRecord.Run> runs = batch.runs().stream().filter(each -> each.partition() == partition).toList();
        TopicPartition from = new TopicPartition(settings.topic(), partition);
        List<TopicPartition> only = List.of(from);
        long first = runs.stream().mapToLong(KafkaBatchRecord.Run::first).min().orElseThrow();
        long begin = Math.max(first, consumer.beginningOffsets(only).get(from));
        long last = runs.stream().mapToLong(KafkaBatchRecord.Run::end).max().orElseThrow();
        long end = Math.min(last, consumer.endOffsets(only).get(from));
        consumer.assign(only);
        consumer.seek(from, begin);
        Map<Long, ConsumerRecord<byte[], byte[]>> records = new HashMap<>();
        read(from, end, each -> {
            if (isIn(runs, each.offset())) {
                records.put(each.offset(), each);
            }
        });
        return records;
    }

    private static boolean isIn(Collection<KafkaBatchRecord.Run> runs, long offset) {
        return runs.stream().anyMatch(each -> offset >= each.first() && offset < each.end());
    }

    /** Begins to poll from a place. */
    Poller begin(Poller.Reader reader, Place place) {
        List<TopicPartition> all = new ArrayList<>(data);
        if (settings.fenceTopic() != null) {
            all.add(controlPartition);
        }
        consumer.assign(all);
        data.forEach(each -> consumer.seek(each, place.in(each.partition())));
        if (settings.fenceTopic() != null) {
            consumer.seek(controlPartition, controlPosition);
        }
        handedOver = true;
        return new Poller(settings, consumer, watch, reader, data, controlPartition);
    }

    @Override
    public void close() {
        if (!handedOver) {
            consumer.close(CloseOptions.timeout(Duration.ZERO));
            watch.close();
        }
    }
}
