package io.speck.mqtt.net;

import io.netty.util.concurrent.DefaultThreadFactory;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** The threads of the event loops, whose processor time is measured. */
final class LoopThreads extends DefaultThreadFactory {
    private final List<Thread> threads = new CopyOnWriteArrayList<>();
    private final ThreadMXBean times = ManagementFactory.getThreadMXBean();

    LoopThreads() {
        super("mqtt", true);
    }

    @Override
    protected Thread newThread(Runnable work, String name) {
        Thread made = super.newThread(work, name);
        threads.add(made);
        return made;
    }

    /** The processor time of all threads so far, ns; 0 where the virtual machine does not measure it. */
    long processorNanos() {
        if (!times.isThreadCpuTimeSupported() || !times.isThreadCpuTimeEnabled()) {
            return 0;
        }
        return threads.stream().mapToLong(each -> Math.max(0, times.getThreadCpuTime(each.getId()))).sum();
    }
}
