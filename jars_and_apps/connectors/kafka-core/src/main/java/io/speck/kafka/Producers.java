package io.speck.kafka;

import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.AckTimes;
import io.speck.mqtt.SinkSettings;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.Producer;

/**
 * The producers of this process: one for each settings, shared by all writers, and for those that offer their messages, one
 * of its own for each. They are closed some time after their last use.
 */
final class Producers {
    /** A broker without a connection for this time is away. */
    static final Duration AWAY = Duration.ofSeconds(3);

    private static final long IDLE_SECONDS = 30;
    private static final Map<SinkSettings, Shared> ALL = new HashMap<>();
    /** Those of single writers, which nobody uses now. */
    private static final Map<SinkSettings, Deque<Shared>> IDLE = new HashMap<>();
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

        /** True if there is a connection to a broker, or one is being opened. */
        boolean connected() {
            return producer.metrics().entrySet().stream().filter(each -> each.getKey().name().equals("connection-count"))
                    .mapToDouble(each -> (Double) each.getValue().metricValue()).sum() > 0;
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

    /**
     * Returns a producer for one writer alone, which may discard it with all that it has not sent. It waits for its broker
     * for a short time.
     */
    static Shared acquireOwn(SinkSettings writer) {
        SinkSettings settings = new SinkSettings(writer.login(), writer.flushTimeout());
        synchronized (ALL) {
            Shared idle = idle(settings).poll();
            Shared own = idle != null ? idle : new Shared(settings, Clients.producer(settings, AWAY));
            own.uses++;
            return own;
        }
    }

    private static Deque<Shared> idle(SinkSettings settings) {
        return IDLE.computeIfAbsent(settings, each -> new ArrayDeque<>());
    }

    /** Releases the producer of one writer alone, all of whose messages are answered. */
    static void releaseOwn(Shared own) {
        synchronized (ALL) {
            idle(own.settings).push(own);
            long uses = own.uses;
            CLOSING.schedule(() -> closeIfIdle(own, uses), IDLE_SECONDS, TimeUnit.SECONDS);
        }
    }

    /**
     * Closes the producer of one writer alone: each of its messages is acknowledged, or has failed, then.
     *
     * @throws org.apache.kafka.common.errors.InterruptException if the thread is interrupted; the producer is closed even so
     */
    static void discardOwn(Shared own) {
        own.producer.close(Duration.ZERO);
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
            idle(shared.settings).remove(shared);
        }
        shared.producer.close(Duration.ZERO);
    }

    /** Closes all producers, used or not. */
    static void closeAll() {
        List<Shared> all;
        synchronized (ALL) {
            all = new ArrayList<>(ALL.values());
            IDLE.values().forEach(all::addAll);
            ALL.clear();
            IDLE.clear();
        }
        all.forEach(each -> each.producer.close(Duration.ZERO));
        CLOSING.shutdownNow();
    }
}
