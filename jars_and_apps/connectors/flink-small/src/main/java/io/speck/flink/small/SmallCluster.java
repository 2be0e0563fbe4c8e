package io.speck.flink.small;

import java.util.concurrent.CompletableFuture;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.plugin.PluginManager;
import org.apache.flink.runtime.entrypoint.ClusterEntrypoint;
import org.apache.flink.runtime.entrypoint.ClusterEntrypointUtils;
import org.apache.flink.runtime.entrypoint.EntrypointClusterConfigurationParserFactory;
import org.apache.flink.runtime.entrypoint.SessionClusterEntrypoint;
import org.apache.flink.runtime.entrypoint.component.DefaultDispatcherResourceManagerComponentFactory;
import org.apache.flink.runtime.entrypoint.component.DispatcherResourceManagerComponentFactory;
import org.apache.flink.runtime.resourcemanager.StandaloneResourceManagerFactory;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.runtime.util.JvmShutdownSafeguard;
import org.apache.flink.runtime.util.SignalHandler;
import org.apache.flink.util.concurrent.FutureUtils;

/**
 * Entry point of a session cluster in one process: Flink's JobManager for sessions, and one TaskManager on the same
 * RPC service.
 *
 * <p>Arguments are those of Flink's {@code StandaloneSessionClusterEntrypoint} ({@code --configDir DIRECTORY}).
 * {@link SmallDefaults} apply to settings that the configuration leaves out. A fatal error of either part ends the
 * process, so that whatever supervises it starts both again.
 */
@SuppressWarnings("try") // the superclass's close() is interruptible
public final class SmallCluster extends SessionClusterEntrypoint {
    private PluginManager plugins;
    private volatile LocalTaskManager taskManager;

    private SmallCluster(Configuration configuration) {
        super(configuration);
    }

    public static void main(String[] arguments) {
        EnvironmentInformation.logEnvironmentInfo(LOG, SmallCluster.class.getSimpleName(), arguments);
        SignalHandler.register(LOG);
        JvmShutdownSafeguard.installAsShutdownHook(LOG);
        var parsed = ClusterEntrypointUtils.parseParametersOrExit(
                arguments, new EntrypointClusterConfigurationParserFactory(), SmallCluster.class);
        ClusterEntrypoint.runClusterEntrypoint(
                new SmallCluster(SmallDefaults.applied(loadConfiguration(parsed))));
    }

    @Override
    protected void initializeServices(Configuration configuration, PluginManager pluginManager) throws Exception {
        plugins = pluginManager;
        super.initializeServices(configuration, pluginManager);
    }

    @Override
    protected DispatcherResourceManagerComponentFactory createDispatcherResourceManagerComponentFactory(
            Configuration ignored) {
        DispatcherResourceManagerComponentFactory jobManager =
                DefaultDispatcherResourceManagerComponentFactory.createSessionComponentFactory(
                        StandaloneResourceManagerFactory.getInstance());
        return (configuration, id, executor, rpc, availability, blobs, heartbeats, tokens, metrics, applications,
                metricQueries, enrichers, errors) -> {
            var component = jobManager.create(configuration, id, executor, rpc, availability, blobs, heartbeats,
                    tokens, metrics, applications, metricQueries, enrichers, errors);
            taskManager = LocalTaskManager.start(
                    configuration, plugins, rpc, availability, heartbeats, metrics, errors);
            return component;
        };
    }

    @Override
    protected CompletableFuture<Void> stopClusterServices(boolean cleanUp) {
        LocalTaskManager started = taskManager;
        if (started == null) {
            return super.stopClusterServices(cleanUp);
        }
        return FutureUtils.composeAfterwards(started.close(), () -> super.stopClusterServices(cleanUp));
    }
}
