package io.speck.mqtt.writer;

import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ResendRequest;
import io.speck.mqtt.net.Runtime;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The publishers of this process: one for each login, shared by all its writers. One without writers is closed after
 * some time, and only when the broker has had all messages for long enough, or was away for long.
 */
final class Publishers {
    private static final Logger LOG = LoggerFactory.getLogger(Publishers.class);
    private static final Map<Login, Shared> ALL = new HashMap<>();
    private static final String IDLE = "speck.sink.idleSeconds";
    private static final long IDLE_SECONDS = 30;
    /** A broker that is away for longer is given up by a process that writes nothing more. */
    private static final long ABSENCE_SECONDS = ResendRequest.EXPIRY_SECONDS;

    /** A process that is asked to end waits for its brokers at most this long. */
    private static final long LAST_MARKS_SECONDS = 1;

    static {
        Thread atExit = new Thread(Publishers::writeLastMarks, "speck-last-marks");
        unlessEnding(() -> java.lang.Runtime.getRuntime().addShutdownHook(atExit));
        Runtime.beforeStop(() -> {
            try {
                closeAll();
            } finally { // it would keep the class loader in memory
                unlessEnding(() -> java.lang.Runtime.getRuntime().removeShutdownHook(atExit));
            }
        });
    }

    private Publishers() {}

    private static final class Shared {
        private final Publisher publisher;
        private int references;
        private long uses;

        private Shared(Login login) {
            publisher = new Publisher(login);
        }
    }

    /**
     * Returns the publisher for this login, for one more writer.
     *
     * @param spool folder for messages that the broker may not have saved; null for none
     */
    static Publisher acquire(Login login, String spool) {
        Path root = spool == null ? null : Path.of(spool);
        Publisher publisher;
        synchronized (ALL) {
            Shared shared = ALL.computeIfAbsent(login, Shared::new);
            shared.references++;
            shared.uses++;
            publisher = shared.publisher;
        }
        if (root != null) {
            publisher.takeover().spoolIn(root);
        }
        return publisher;
    }

    /** Sends in the background what earlier processes left in a folder for a broker. */
    static void takeOver(Login login, String spool) {
        if (ResendRequest.retentionSeconds() == 0) {
            return;
        }
        Publisher publisher = acquire(login, null);
        publisher.takeover().from(Path.of(spool));
        release(publisher, new Delivery()); // it stays for as long as it holds messages
    }

    /** Has all publishers take over what was left below a root for their brokers, also under former logins. */
    static void takeOverStranded(Path root) throws InterruptedException {
        List<Shared> all;
        synchronized (ALL) {
            all = List.copyOf(ALL.values());
        }
        for (Shared each : all) {
            Takeover takeover = each.publisher.takeover();
            if (takeover.canAsk(root)) {
                closeFormerLogins(all, takeover);
                takeover.stranded(root);
            }
        }
    }

    /**
     * Closes the publishers without writers whose messages are for another publisher's broker, which has their marks: its
     * address has changed while this process ran on. They leave their messages on disk.
     */
    private static void closeFormerLogins(List<Shared> all, Takeover takeover) throws InterruptedException {
        Map<String, Shared> idle = new HashMap<>();
        synchronized (ALL) {
            all.stream().filter(each -> each.references == 0 && each.publisher.takeover().leavableId() != null)
                    .forEach(each -> idle.put(each.publisher.takeover().leavableId(), each));
        }
        idle.remove(null);
        for (String id : takeover.marked(List.copyOf(idle.keySet()))) {
            closeIfIdle(idle.get(id));
        }
    }

    private static void closeIfIdle(Shared shared) {
        Connection closing = null;
        synchronized (ALL) {
            if (shared.references == 0 && ALL.get(shared.publisher.login()) == shared) {
                closing = end(shared);
            }
        }
        if (closing != null) {
            closing.closeAndEndSession();
        }
    }

    /** Ends a publisher without writers; returns its connection, or null. The next one finds what it leaves. */
    private static Connection end(Shared shared) {
        shared.uses++; // so that a close which is due later leaves it alone
        ALL.remove(shared.publisher.login(), shared);
        return shared.publisher.shutDown();
    }

    /** Releases the publisher of a writer, and drops the writer's unacknowledged messages. */
    static void release(Publisher publisher, Delivery writer) {
        publisher.abort(writer);
        synchronized (ALL) {
            Shared shared = ALL.get(publisher.login());
            if (shared != null && shared.publisher == publisher && --shared.references == 0) {
                long usesAtRelease = shared.uses;
                closeLater(shared, usesAtRelease, 0);
            }
        }
    }

    private static void closeLater(Shared shared, long usesAtRelease, long idleSeconds) {
        long pause = Long.getLong(IDLE, IDLE_SECONDS);
        Runnable closing = () -> closeIfIdle(shared, usesAtRelease, idleSeconds + pause);
        Runtime.LOOPS.schedule(() -> Runtime.BACKGROUND.execute(closing), pause, TimeUnit.SECONDS);
    }

    private static void closeIfIdle(Shared shared, long usesAtRelease, long idleSeconds) {
        Connection closing;
        synchronized (ALL) {
            if (shared.references > 0 || shared.uses != usesAtRelease) {
                return;
            }
            if (idleSeconds < ABSENCE_SECONDS && shared.publisher.holdsMessages()) {
                closeLater(shared, usesAtRelease, idleSeconds);
                return;
            }
            closing = end(shared);
        }
        if (closing != null) {
            closing.closeAndEndSession();
        }
    }

    /** Closes all publishers, used or not. */
    static void closeAll() {
        List<Shared> all;
        synchronized (ALL) {
            all = List.copyOf(ALL.values());
            ALL.clear();
        }
        for (Shared shared : all) {
            Connection closing = shared.publisher.shutDown();
            if (closing != null) {
                closing.closeAndEndSession();
            }
        }
    }

    /**
     * Writes what the brokers have to their marks before the process ends: the next one would send all since the last
     * second again.
     */
    private static void writeLastMarks() {
        CompletableFuture<?>[] written;
        synchronized (ALL) {
            written = ALL.values().stream().map(shared -> shared.publisher.lastMark()).toArray(CompletableFuture[]::new);
        }
        CompletableFuture.allOf(written).completeOnTimeout(null, LAST_MARKS_SECONDS, TimeUnit.SECONDS).join();
    }

    /** Changes what is done when the process ends, unless it is ending already, when nothing can be changed any more. */
    private static void unlessEnding(Runnable change) {
        try {
            change.run();
        } catch (IllegalStateException e) {
            LOG.debug("the process is ending: {}", e.toString());
        }
    }

    static int count() {
        synchronized (ALL) {
            return ALL.size();
        }
    }
}
