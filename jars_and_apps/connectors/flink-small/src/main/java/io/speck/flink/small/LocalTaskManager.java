package io.speck.flink.small;

import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.core.plugin.PluginManager;
import org.apache.flink.runtime.blob.BlobCacheService;
import org.apache.flink.runtime.clusterframework.types.ResourceID;
import org.apache.flink.runtime.entrypoint.ClusterEntrypointUtils;
import org.apache.flink.runtime.entrypoint.DeterminismEnvelope;
import org.apache.flink.runtime.entrypoint.WorkingDirectory;
import org.apache.flink.runtime.externalresource.ExternalResourceUtils;
import org.apache.flink.runtime.heartbeat.HeartbeatServices;
import org.apache.flink.runtime.highavailability.HighAvailabilityServices;
import org.apache.flink.runtime.metrics.MetricRegistry;
import org.apache.flink.runtime.rpc.FatalErrorHandler;
import org.apache.flink.runtime.rpc.RpcService;
import org.apache.flink.runtime.security.token.DelegationTokenReceiverRepository;
import org.apache.flink.runtime.state.changelog.StateChangelogStorageLoader;
import org.apache.flink.runtime.taskexecutor.TaskExecutor;
import org.apache.flink.runtime.taskexecutor.TaskManagerRunner;
import org.apache.flink.util.FlinkException;
import org.apache.flink.util.Reference;
import org.apache.flink.util.concurrent.FutureUtils;

/** The TaskManager of a {@link SmallCluster}, the only one: its tasks exchange data in memory, without a server. */
final class LocalTaskManager {
    private final TaskExecutor executor;
    private final BlobCacheService blobs;
    private final DeterminismEnvelope<WorkingDirectory> directory;
    private volatile boolean closing;

    private LocalTaskManager(
            TaskExecutor executor, BlobCacheService blobs, DeterminismEnvelope<WorkingDirectory> directory) {
        this.executor = executor;
        this.blobs = blobs;
        this.directory = directory;
    }

    /** Starts it on the services of the JobManager; its unexpected end is a fatal error of the process. */
    static LocalTaskManager start(
            Configuration configuration,
            PluginManager plugins,
            RpcService rpc,
            HighAvailabilityServices availability,
            HeartbeatServices heartbeats,
            MetricRegistry metrics,
            FatalErrorHandler errors)
            throws Exception {
        StateChangelogStorageLoader.initialize(plugins);
        DeterminismEnvelope<ResourceID> id = id(configuration, rpc);
        DeterminismEnvelope<WorkingDirectory> directory =
                ClusterEntrypointUtils.createTaskManagerWorkingDirectory(configuration, id);
        BlobCacheService blobs = new BlobCacheService(
                configuration,
                Reference.borrowed(directory.unwrap().getBlobStorageDirectory()),
                availability.createBlobStore(),
                null); // the address of the blob server comes with the registration
        TaskExecutor executor = TaskManagerRunner.startTaskManager(
                configuration,
                id.unwrap(),
                rpc,
                availability,
                heartbeats,
                metrics,
                blobs,
                true,
                ExternalResourceUtils.createStaticExternalResourceInfoProviderFromConfig(configuration, plugins),
                directory.unwrap(),
                errors,
                new DelegationTokenReceiverRepository(configuration, plugins));
        LocalTaskManager started = new LocalTaskManager(executor, blobs, directory);
        executor.getTerminationFuture().whenComplete((nothing, failure) -> {
            if (!started.closing) {
                errors.onFatalError(new FlinkException("The TaskManager of this process ended.", failure));
            }
        });
        executor.start();
        return started;
    }

    private static DeterminismEnvelope<ResourceID> id(Configuration configuration, RpcService rpc) {
        return configuration.getOptional(TaskManagerOptions.TASK_MANAGER_RESOURCE_ID)
                .map(name -> DeterminismEnvelope.deterministicValue(new ResourceID(name)))
                .orElseGet(() -> DeterminismEnvelope.nondeterministicValue(new ResourceID(
                        rpc.getAddress() + ":" + rpc.getPort() + "-" + UUID.randomUUID().toString().substring(0, 6))));
    }

    /** Cancels its tasks, and removes its files; the services that it used stay. */
    CompletableFuture<Void> close() {
        closing = true;
        return FutureUtils.runAfterwards(executor.closeAsync(), () -> {
            blobs.close();
            if (!directory.isDeterministic()) {
                directory.unwrap().delete();
            }
        });
    }
}
