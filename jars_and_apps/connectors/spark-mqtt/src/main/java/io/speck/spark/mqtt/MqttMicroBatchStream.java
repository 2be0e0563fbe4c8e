package io.speck.spark.mqtt;

import io.speck.connector.BrokerProvider;
import io.speck.connector.Brokers;
import io.speck.connector.MessageSource;
import io.speck.connector.reader.SourceMetrics;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.failure.LeftOut;
import io.speck.sql.SqlProgram;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The stream of one query.
 *
 * <p>Connects at Spark's first call, which shows if a batch of before a restart is to be repeated: Spark then requests
 * its rows, and a new end offset otherwise. Spark requests a new end only once all rows before the start are committed,
 * so the source acknowledges at that call, a batch earlier than by {@link #commit}; the last batch of a query that stops
 * is acknowledged by Spark's own record of commits.
 *
 * <p>In real-time mode a batch has no end until it is over: tasks get messages as they arrive ({@link RealTimeFeed}), and
 * the end is recorded afterwards. A batch that is interrupted is run again to another end.
 */
final class MqttMicroBatchStream implements MicroBatchStream, SupportsTriggerAvailableNow, SupportsRealTimeMode,
        ReportsSourceMetrics {
    private static final Logger LOG = LoggerFactory.getLogger(MqttMicroBatchStream.class);

    private final ReadOptions options;
    private final int number;
    private final HadoopBatchJournal journal;
    private MessageSource source;
    private final CheckpointSync checkpoint;
    private final CommitLog commits;
    /** Null if the query fails with its first error. */
    private final FailedMessages failed;
    private final Pacing pacing;
    private final BatchPartitions partitions;
    private final String run;
    private final SparkSession spark;
    private final String queryId;
    /** True if the query uses contents as text; null before the first batch. */
    private Boolean text;
    /** Null in micro-batches. */
    private RealTimeFeed feed;
    /** Null in micro-batches, or if the query fails with its first error. */
    private RealTimeFailures failures;
    /** The acknowledgement of the batch before, in real time. */
    private Future<Void> acknowledging = CompletableFuture.completedFuture(null);
    private boolean opened;
    private boolean availableNow;
    private long availableEnd = -1;
    private long acknowledged;
    /** The number of parts of the batch planned last; 0 before the first. */
    private volatile int lastPartitions;

    /** @param number of this source among those of the query */
    MqttMicroBatchStream(ReadOptions options, String checkpointLocation, int number) {
        this.spark = SparkSession.active();
        this.options = options;
        SqlProgram program = options.program() == null ? null : SqlProgram.of(options.program());
        this.number = number;
        this.pacing = new Pacing(options.pacing());
        this.run = spark.sparkContext().getLocalProperty(RealTimeFeeds.RUN_PROPERTY);
        this.queryId = spark.sparkContext().getLocalProperty(StreamExecution.QUERY_ID_KEY());
        SinkSettings parking = parking(options.source(), MqttTable.spool(spark));
        // Whoever wrote to the broker of this session may have been moved away since a power cut of the site.
        brokers().takeOver(parking);
        try {
            Configuration configuration = spark.sessionState().newHadoopConf();
            this.journal = new HadoopBatchJournal(checkpointLocation, configuration);
            this.source = brokers().batches(options.source(), journal);
            this.checkpoint = journal.checkpoint();
            this.commits = new CommitLog(checkpointLocation, configuration);
            this.failed = options.onError().fails() ? null : new FailedMessages(
                    FailedRanges.in(checkpointLocation, configuration),
                    new LeftOut(options.onError(), parking));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        this.partitions = new BatchPartitions(options, spark.sparkContext().defaultParallelism(), program, failed,
                this::isText);
    }

    private BrokerProvider brokers() {
        return Brokers.of(options.source().login());
    }

    private static SinkSettings parking(SourceSettings source, String spool) {
        return new SinkSettings(source.login(), source.connectTimeout()).withSpool(spool);
    }

    @Override
    public Offset initialOffset() {
        return new MqttOffset(0);
    }

    @Override
    public Offset deserializeOffset(String json) {
        return MqttOffset.parse(json);
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        return ReadLimit.maxRows(options.maxRows());
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        availableNow = true;
    }

    @Override
    public void prepareForRealTimeMode() {
        translated(() -> {
            commits.deleteUnfinished();
            return null;
        });
        source.close();
        source = brokers().streaming(options.source(), journal);
        lastPartitions = options.partitions() > 0 ? options.partitions() : 1;
        failures = failed == null ? null : new RealTimeFailures(failed.files(), failed.leftOut(),
                each -> partitions.fault(each.payload()), System::nanoTime);
        feed = RealTimeFeeds.add(source, run, options.maxRows(), lastPartitions, failures);
    }

    /** Returns the parts of a batch without an end. All before its start is committed. */
    @Override
    public InputPartition[] planInputPartitions(Offset startOffset) {
        long start = ((MqttOffset) startOffset).position();
        return translated(() -> {
            open(start, start);
            awaitAcknowledgement();
            if (isText() && failures == null) {
                feed.requireText();
            }
            feed.begin(start);
            acknowledging = acknowledgeBesideBatch(start);
            return RealTimeRows.partitions(feed, feed.partitions());
        });
    }

    /** The batch has not to wait until files are synced and a packet is sent for each message of the last one. */
    private Future<Void> acknowledgeBesideBatch(long committed) {
        FutureTask<Void> task = new FutureTask<>(() -> {
            acknowledge(committed);
            feed.acknowledged();
            return null;
        });
        Thread thread = new Thread(task, "acknowledges batches of " + options.source().clientId());
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** Returns when the acknowledgement beside the batch is done; at once in micro-batches. */
    private void awaitAcknowledgement() throws IOException, InterruptedException {
        try {
            acknowledging.get();
        } catch (ExecutionException e) {
            throw new IOException("the batch before could not be acknowledged: " + e.getCause(), e.getCause());
        }
    }

    /** Returns the end of the batch that is over, once it is recorded. */
    @Override
    public Offset mergeOffsets(PartitionOffset[] parts) {
        return translated(() -> {
            long end = feed.end();
            awaitAcknowledgement();
            if (end > feed.start()) {
                source.close(feed.start(), end, feed.partitions());
            }
            return new MqttOffset(end);
        });
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException("latestOffset() is not supported (call latestOffset(start, limit))");
    }

    @Override
    public Offset latestOffset(Offset startOffset, ReadLimit limit) {
        if (feed != null) {
            return startOffset; // Spark asks in real-time mode too, and does not use the answer
        }
        long start = ((MqttOffset) startOffset).position();
        return translated(() -> {
            open(start, start);
            pacing.ends(System.nanoTime());
            acknowledge(start); // takes some of the time in which rows gather
            long end = gather(start, rows(limit));
            if (end > start) {
                source.close(start, end, partitions.number(end - start));
                pacing.begins(System.nanoTime());
            }
            return new MqttOffset(end);
        });
    }

    private long rows(ReadLimit limit) {
        return limit instanceof ReadMaxRows maximum ? maximum.maxRows()
                : limit instanceof ReadAllAvailable ? Integer.MAX_VALUE : options.maxRows();
    }

    private long gather(long start, long limit) throws InterruptedException {
        if (availableNow) {
            return Math.min(availableEnd(start), start + limit);
        }
        long arrived = source.await(start + 1, options.pacing().idleWait().toNanos());
        if (arrived > start) {
            arrived = source.await(start + Math.min(limit, options.maxRows()), pacing.lingerNanos(System.nanoTime()));
        }
        return Math.min(arrived, start + limit);
    }

    /** Brokers do not report how much is queued: all has arrived once nothing more arrives for a while. */
    private long availableEnd(long start) throws InterruptedException {
        long quiet = options.pacing().quietTime().toNanos();
        while (availableEnd < 0) {
            long before = source.await(0, 0);
            long after = source.await(Math.max(before, start) + 1, quiet);
            if (after <= Math.max(before, start) || after - start >= options.source().receiveMaximum() / 2) {
                availableEnd = after;
            }
        }
        return Math.max(start, availableEnd);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset startOffset, Offset endOffset) {
        long start = ((MqttOffset) startOffset).position();
        long end = ((MqttOffset) endOffset).position();
        return translated(() -> {
            if (end <= start) {
                return partitions.none();
            }
            open(start, end);
            source.awaitWhole();
            int recorded = source.recordedPartitions(start);
            int count = recorded > 0 ? recorded : partitions.number(end - start);
            InputPartition[] parts = partitions.divide(source.messages(start, end), count);
            lastPartitions = parts.length;
            return parts;
        });
    }

    private boolean isText() {
        if (text == null) {
            text = !options.columns().binaryValue() && TextUse.isText(spark, queryId, this);
        }
        return text;
    }

    /** See {@link BatchPartitions#grouping}. */
    long grouping() {
        return partitions.grouping();
    }

    private void open(long committed, long uncommittedEnd) throws IOException, InterruptedException {
        if (!opened) {
            source.open(committed, uncommittedEnd);
            opened = true;
        }
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return feed != null ? new RealTimeRows.Factory(options.columns(), number)
                : new Rows.Factory(options.columns(), number, failed == null ? null : failed.files(),
                        failed == null ? null : failed.run());
    }

    @Override
    public void commit(Offset end) {
        if (feed != null) {
            return; // the next batch begins now, and acknowledges it
        }
        translated(() -> {
            acknowledge(((MqttOffset) end).position());
            return null;
        });
    }

    /** Acknowledges what is committed once no power cut can undo the commit. */
    private void acknowledge(long committed) throws IOException {
        if (committed > acknowledged) {
            checkpoint.run();
            acknowledged = committed;
            if (failures != null) {
                failures.committed(committed);
            } else if (failed != null) {
                failed.committed(committed);
            }
        }
        source.commit(committed);
    }

    @Override
    public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
        SourceMetrics metrics = source.metrics();
        Map<String, String> values = new LinkedHashMap<>();
        values.put("queued", Long.toString(metrics.queued()));
        values.put("bufferFull", metrics.bufferFull() ? "1" : "0");
        values.put("received", Long.toString(metrics.received()));
        values.put("receivedBytes", Long.toString(metrics.receivedBytes()));
        values.put("receivedQos0", Long.toString(metrics.receivedQos0()));
        values.put("partitions", Integer.toString(lastPartitions));
        values.put("redelivered", Long.toString(metrics.redelivered()));
        values.put("duplicatesDropped", Long.toString(metrics.duplicatesDropped()));
        values.put("duplicatesByRun", metrics.runsText());
        values.put("collisions", Long.toString(metrics.collisions()));
        values.put("changedRepetitions", Long.toString(metrics.changedRepetitions()));
        values.put("badStamps", Long.toString(metrics.badStamps()));
        values.put("reconnections", Long.toString(metrics.reconnections()));
        values.put("lostSessions", Long.toString(metrics.lostSessions()));
        values.put("lostMessages", Long.toString(metrics.lost()));
        SourceMetrics.REASONS.forEach(reason -> values.put(reason, Long.toString(metrics.lost(reason))));
        if (feed != null) {
            values.put("waitedMillis", Long.toString(feed.waitedMillis()));
        }
        if (failed != null) {
            values.put("skipped", Long.toString(failed.leftOut().skipped()));
            values.put("parked", Long.toString(failed.leftOut().parked()));
        }
        values.put("connected", Boolean.toString(metrics.connected()));
        return values;
    }

    @Override
    public void stop() {
        boolean interrupted = Thread.interrupted(); // by Spark, to end the query; files could not be read then
        try {
            acknowledgeCommitted();
        } catch (IOException | InterruptedException | RuntimeException e) {
            LOG.warn("the last batch is acknowledged only when the query continues from its checkpoint", e);
        } finally {
            if (failed != null) {
                failed.leftOut().close();
            }
            if (feed != null) {
                RealTimeFeeds.remove(feed);
            }
            source.close();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Acknowledges the last batch, so that a query without this checkpoint does not get it again. */
    private void acknowledgeCommitted() throws IOException, InterruptedException {
        awaitAcknowledgement();
        OptionalLong end = opened ? commits.end() : OptionalLong.empty();
        if (end.isPresent()) {
            acknowledge(end.getAsLong());
        }
    }

    private interface Work<T> {
        T run() throws IOException, InterruptedException;
    }

    /** Spark treats only an interrupted read as the end of a stopped query. */
    private static <T> T translated(Work<T> work) {
        try {
            return work.run();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            InterruptedIOException stopped = new InterruptedIOException("the query was stopped");
            stopped.initCause(e);
            throw new UncheckedIOException(stopped);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
