package streets;

import io.speck.flink.mqtt.MqttJob;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/**
 * Takes {@code micros} (500) of processor time for each message, and hands it on with the time (in microseconds, by the
 * clock) that this has taken: on a busy machine it is longer.
 */
public final class Burning {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private Burning() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        long nanos = 1000 * Long.parseLong(job.argument("micros", "500"));
        job.write(job.texts().map(text -> text + " " + burn(nanos) / 1000).name("burn"));
        job.execute();
    }

    private static long burn(long nanos) {
        long begin = System.nanoTime();
        long end = THREADS.getCurrentThreadCpuTime() + nanos;
        while (THREADS.getCurrentThreadCpuTime() < end) {
            Thread.onSpinWait();
        }
        return System.nanoTime() - begin;
    }
}
