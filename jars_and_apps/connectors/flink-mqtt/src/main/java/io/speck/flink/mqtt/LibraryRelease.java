package io.speck.flink.mqtt;

import io.speck.mqtt.net.Runtime;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.util.UserCodeClassLoader;

/**
 * Ends the library's threads together with the job, when they are the job's own.
 *
 * <p>Flink loads a job's jar with a class loader for each job, hence one copy of the library and its threads each. A
 * thread that outlived the job would keep all its classes in memory for as long as the process lives.
 */
final class LibraryRelease {
    private LibraryRelease() {}

    static void with(UserCodeClassLoader jobs) {
        boolean ownedByJob = Runtime.class.getClassLoader() != SourceReader.class.getClassLoader();
        if (ownedByJob) {
            jobs.registerReleaseHookIfAbsent("speck-mqtt", Runtime::stop);
        }
    }
}
