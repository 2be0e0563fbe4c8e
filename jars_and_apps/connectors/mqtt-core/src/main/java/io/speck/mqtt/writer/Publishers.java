package io.speck.mqtt.writer;

import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ResendRequest;
import io.speck.mqtt.net.Runtime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The publishers of this process: one for each login, shared by all who write there, and closed some time after the last. */
final class Publishers {
    private static final Map<Login, Shared> ALL = new HashMap<>();
    private static final long IDLE_SECONDS = Math.max(30, ResendRequest.RETENTION_SECONDS);

    static {
        Runtime.beforeStop(Publishers::closeAll);
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

    /** The publisher for this login, with one more writer. */
    static Publisher share(Login login) {
        synchronized (ALL) {
            Shared shared = ALL.computeIfAbsent(login, Shared::new);
            shared.references++;
            shared.uses++;
            return shared.publisher;
        }
    }

    /** One writer less: what it had not got rid of is forgotten. */
    static void release(Publisher publisher, MqttSink writer) {
        publisher.abort(writer);
        synchronized (ALL) {
            Shared shared = ALL.get(publisher.login());
            if (shared != null && shared.publisher == publisher && --shared.references == 0) {
                long then = shared.uses;
                Runtime.LOOPS.schedule(() -> closeIfIdle(shared, then), IDLE_SECONDS, TimeUnit.SECONDS);
            }
        }
    }

    private static void closeIfIdle(Shared shared, long then) {
        synchronized (ALL) {
            if (shared.references > 0 || shared.uses != then) {
                return;
            }
            ALL.remove(shared.publisher.login(), shared);
        }
        Connection leaving = shared.publisher.leave();
        if (leaving != null) {
            Runtime.BACKGROUND.execute(() -> leaving.close(true));
        }
    }

    /** Closes all, whoever still writes. */
    static void closeAll() {
        List<Shared> all;
        synchronized (ALL) {
            all = List.copyOf(ALL.values());
            ALL.clear();
        }
        for (Shared shared : all) {
            Connection leaving = shared.publisher.leave();
            if (leaving != null) {
                leaving.close(true);
            }
        }
    }

    static int count() {
        synchronized (ALL) {
            return ALL.size();
        }
    }
}
