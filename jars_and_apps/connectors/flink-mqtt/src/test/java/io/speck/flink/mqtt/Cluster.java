package io.speck.flink.mqtt;

import io.speck.mqtt.Await;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.testutils.InMemoryReporter;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Flink itself, in this process, with the settings that SpecK gives a job. */
final class Cluster {
    private static final int SLOTS = 4;

    private final MiniCluster flink;
    private final Path folder;
    private final InMemoryReporter metrics = InMemoryReporter.create();

    Cluster(Path folder) throws Exception {
        this.folder = folder;
        Configuration configuration = new Configuration();
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.resolve("checkpoints").toUri().toString());
        configuration.set(RestOptions.BIND_PORT, "0"); // of the kernel's choice: other clusters may run
        metrics.addToConfiguration(configuration);
        flink = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(configuration)
                .setNumTaskManagers(1).setNumSlotsPerTaskManager(SLOTS).build());
        flink.start();
    }

    /** Creates an environment for one job; a long interval keeps checkpoints to those that the test triggers. */
    static StreamExecutionEnvironment environment(long checkpointMillis, String savepoint) {
        Configuration configuration = new Configuration();
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 1000);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, java.time.Duration.ofMillis(50));
        if (savepoint != null) {
            configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(1);
        environment.enableCheckpointing(checkpointMillis);
        // Without a minimum pause Flink takes the first checkpoint at once, even with a long interval.
        environment.getCheckpointConfig().setMinPauseBetweenCheckpoints(checkpointMillis);
        return environment;
    }

    JobID run(StreamExecutionEnvironment environment) throws Exception {
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        return flink.submitJob(graph).get(1, TimeUnit.MINUTES).getJobID();
    }

    JobStatus status(JobID job) throws Exception {
        return flink.getJobStatus(job).get(1, TimeUnit.MINUTES);
    }

    void awaitRunning(JobID job) {
        Await.until("running", () -> status(job) == JobStatus.RUNNING);
    }

    /** Waits until a job's source has its connection, and with it its session. */
    void awaitConnected(JobID job) {
        awaitMetric(job, "connected", 1);
    }

    /** Waits until a gauge of a job's source reaches a value. */
    void awaitMetric(JobID job, String name, long value) {
        Await.until(name + " is " + value, () -> gauge(job, name) >= value);
    }

    /** Waits until a job's source has acknowledged all it received: it is notified of a complete checkpoint last. */
    void awaitIdle(JobID job) {
        Await.until("nothing queued", () -> gauge(job, "queued") == 0);
    }

    /** The value of a gauge of a job's source, or the largest of several; -1 for none. */
    long gauge(JobID job, String name) {
        return metrics.findMetrics(job, "." + name).values().stream().map(found -> ((Gauge<?>) found).getValue())
                .mapToLong(found -> ((Number) found).longValue()).max().orElse(-1L);
    }

    CompletableFuture<Void> checkpointLater(JobID job) {
        return flink.triggerCheckpoint(job).thenApply(path -> null);
    }

    void checkpoint(JobID job) throws Exception {
        flink.triggerCheckpoint(job).get(1, TimeUnit.MINUTES);
    }

    /** Retries until one succeeds: Flink declines a checkpoint while a task is ending. */
    void awaitCheckpoint(JobID job) {
        Await.until("a checkpoint", () -> checkpointLater(job).handle((done, declined) -> declined == null)
                .get(1, TimeUnit.MINUTES));
    }

    /** Stops a job; returns the path of its savepoint. */
    String stop(JobID job) throws Exception {
        return flink.stopWithSavepoint(job, folder.resolve("savepoints").toUri().toString(), false,
                SavepointFormatType.CANONICAL).get(1, TimeUnit.MINUTES);
    }

    void cancel(JobID job) throws Exception {
        flink.cancelJob(job).get(1, TimeUnit.MINUTES);
        Await.until("cancelled", () -> status(job).isGloballyTerminalState());
    }

    /** Returns the text of the innermost cause of a job's end. */
    String failure(JobID job) throws Exception {
        Await.until("failed", () -> status(job) == JobStatus.FAILED);
        Throwable cause = flink.requestJobResult(job).get(1, TimeUnit.MINUTES).getSerializedThrowable().orElseThrow()
                .deserializeError(Cluster.class.getClassLoader());
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause.getMessage();
    }

    void close() throws Exception {
        flink.close();
    }
}
