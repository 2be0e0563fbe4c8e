package io.speck.flink.small;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.TaskManagerOptions;

/**
 * Settings of a {@link SmallCluster} where its configuration has none.
 *
 * <p>Flink refuses to start a TaskManager without sizes of its memory. All but that of the network buffers are for
 * reports only: Java's options bound the process.
 */
final class SmallDefaults {
    private static final long MIB = 1 << 20;
    private static final long NOMINAL = 32 * MIB;
    // 64 buffers a slot, which are allocated at the start; a job that fills n slots takes about n * (3 n + 8) of them
    // for an exchange by key.
    private static final long NETWORK_OF_SLOT = 2 * MIB;

    private SmallDefaults() {}

    /** Returns the configuration, completed. */
    static Configuration applied(Configuration configuration) {
        int slots = configuration.get(TaskManagerOptions.NUM_TASK_SLOTS);
        settings(slots).forEach((name, value) -> {
            if (!configuration.containsKey(name)) {
                configuration.setString(name, value);
            }
        });
        // Flink fails without a message where these two differ.
        configuration.setString("taskmanager.memory.jvm-overhead.min", bytes(NOMINAL));
        configuration.setString("taskmanager.memory.jvm-overhead.max", bytes(NOMINAL));
        return configuration;
    }

    private static Map<String, String> settings(int slots) {
        Map<String, String> settings = new HashMap<>();
        long heap = Runtime.getRuntime().maxMemory();
        settings.put("taskmanager.cpu.cores", slots + ".0"); // the size out of which slots are cut, not a limit
        settings.put("taskmanager.memory.framework.heap.size", bytes(NOMINAL));
        settings.put("taskmanager.memory.task.heap.size", bytes(Math.max(heap - NOMINAL, NOMINAL)));
        settings.put("taskmanager.memory.framework.off-heap.size", bytes(NOMINAL));
        settings.put("taskmanager.memory.task.off-heap.size", bytes(NOMINAL));
        settings.put("taskmanager.memory.managed.size", bytes(0)); // state is on the heap
        settings.put("taskmanager.memory.network.min", bytes(slots * NETWORK_OF_SLOT));
        settings.put("taskmanager.memory.network.max", bytes(slots * NETWORK_OF_SLOT));
        settings.put("taskmanager.memory.jvm-metaspace.size", bytes(NOMINAL));
        // Bytes of ended jobs on the heap; 50 MB otherwise.
        settings.put("completed-application-store.cache-size", String.valueOf(MIB));
        settings.put("cluster.io-pool.size", "4"); // threads; four for each core otherwise
        return settings;
    }

    private static String bytes(long size) {
        return size + "b";
    }
}
