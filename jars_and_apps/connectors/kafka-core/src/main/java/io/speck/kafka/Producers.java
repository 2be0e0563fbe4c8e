package io.speck.kafka;

import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.AckTimes;
import io.speck.mqtt.SinkSettings;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.Producer;

/** The producers of this process: one for each settings, shared by all writers; closed some time after its last use. */
final class Producers {
    private static final long IDLE_SECONDS = 30;
    private static final Map<SinkSettings, Shared> ALL = new HashMap<>();
    private static final ScheduledExecutorService CLOSING = closing();

    private Producers() {}

    private static ScheduledExecutorService closing() {
        ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "kafka-close");
            thread.setDaemon(true);
            return thread;
        });
        executor.setKeepAliveTime(1, TimeUnit.SECONDS);
        executor.allowCoreThreadTimeOut(true);
        return executor;
    }

    /** A producer with its figures. */
    static final class Shared {
        final Producer<byte[], byte[]> producer;
        private final SinkSettings settings;
        private final AckTimes times = new AckTimes(System.nanoTime());
        private int references;
        private long uses;

        Shared(SinkSettings settings, Producer<byte[], byte[]> producer) {
            this.settings = settings;
            this.producer = producer;
        }

        synchronized void acknowledged(long sentNanos) {
            long now = System.nanoTime();
            times.add(now, now - sentNanos);
        }

        synchronized AckMetrics acks() {
            return times.metrics(settings.login().toString(), System.nanoTime());
        }
    }

    /** Returns the producer for one more writer. */
    static Shared acquire(SinkSettings writer) {
        // Kafka neither retains messages nor needs a folder for them: writers with others share their producer.
        SinkSettings settings = new SinkSettings(writer.login(), writer.flushTimeout());
        synchronized (ALL) {
            Shared shared = ALL.computeIfAbsent(settings, each -> new Shared(each, Clients.producer(each)));
            shared.references++;
            shared.uses++;
            return shared;
        }
    }

    /** Releases a producer; {@code broken}: further writers get another one. */
    static void release(Shared shared, boolean broken) {
        synchronized (ALL) {
            if (broken) {
                ALL.remove(shared.settings, shared);
            }
            if (--shared.references == 0) {
                long uses = shared.uses;
                CLOSING.schedule(() -> closeIfIdle(shared, uses), broken ? 0 : IDLE_SECONDS, TimeUnit.SECONDS);
            }
        }
    }

    private static void closeIfIdle(Shared shared, long uses) {
        synchronized (ALL) {
            if (shared.references > 0 || shared.uses != uses) {
                return;
            }
            ALL.remove(shared.settings, shared);
        }
        shared.producer.close(Duration.ZERO);
    }

    /** Closes all producers, used or not. */
    static void closeAll() {
        List<Shared> all;
        synchronized (ALL) {
            all = List.copyOf(ALL.values());
            ALL.clear();
        }
        all.forEach(each -> each.producer.close(Duration.ZERO));
        CLOSING.shutdownNow();
    }
}
