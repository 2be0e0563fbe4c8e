package io.speck.flink.mqtt;

import io.speck.connector.Brokers;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.util.UserCodeClassLoader;

/**
 * Ends the library's threads together with the job if they belong to the job.
 *
 * <p>Flink loads a job's jar with a class loader for each job, which gives each job a copy of the library and its
 * threads. A thread that outlived the job would keep all its classes in memory for the lifetime of the process.
 */
final class LibraryRelease {
    private LibraryRelease() {}

    static void register(UserCodeClassLoader loader) {
        boolean ownedByJob = Brokers.class.getClassLoader() != SourceReader.class.getClassLoader();
        if (ownedByJob) {
            loader.registerReleaseHookIfAbsent("speck-mqtt", Brokers::stop);
        }
    }
}
