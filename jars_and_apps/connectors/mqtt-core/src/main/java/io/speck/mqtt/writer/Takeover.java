package io.speck.mqtt.writer;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes the messages over that other processes have left on disk for the broker of a {@link Publisher}, and has sent what
 * the broker lacks of them. Shares the publisher's lock, which its callers do not hold.
 */
final class Takeover {
    private static final Logger LOG = LoggerFactory.getLogger(Takeover.class);

    private final ReentrantLock lock;
    private final Login login;
    private final Retention retention;
    private final NewestRetained newestRetained;
    private final WriterConnection connection;
    private final Runnable forgetConnection;
    /** Held while messages are taken over, by a thread without the lock: the next connection is opened after that. */
    private final Object takingOver = new Object();

    /** @param forgetConnection has the publisher queue again what was in flight; called with the lock */
    Takeover(ReentrantLock lock, Login login, Retention retention, NewestRetained newestRetained,
            WriterConnection connection, Runnable forgetConnection) {
        this.lock = lock;
        this.login = login;
        this.retention = retention;
        this.newestRetained = newestRetained;
        this.connection = connection;
        this.forgetConnection = forgetConnection;
    }

    /** Holds messages on disk too ({@link Retention#spoolIn}), and takes over what others have left there. */
    void spoolIn(Path root) {
        if (begins(root)) {
            again();
        }
    }

    private boolean begins(Path root) {
        lock.lock();
        try {
            return retention.spoolIn(root);
        } finally {
            lock.unlock();
        }
    }

    /** Takes over what others have left meanwhile below the folders that are known. */
    void again() {
        synchronized (takingOver) {
            takeOver(retention.abandoned());
        }
    }

    /** Does as {@link #spoolIn} if others have left something there, and connects then; else nothing. */
    void from(Path root) {
        synchronized (takingOver) {
            List<SpoolFolder> found = SpoolFolder.abandoned(root, login);
            if (!found.isEmpty()) {
                begins(root);
                takeOver(found);
            }
        }
    }

    /**
     * Takes over what was left below a known root, also under another address of this broker, or by another user: the marks
     * that the broker has prove that it is the same one.
     */
    void stranded(Path root) throws InterruptedException {
        if (canAsk(root)) {
            again(); // a search for marks by another process may have locked them when this one connected
            ofFormerLogins(SpoolFolder.ofOtherLogins(root, login));
        }
    }

    private void ofFormerLogins(List<SpoolFolder> others) throws InterruptedException {
        if (others.isEmpty()) {
            return;
        }
        Map<Boolean, List<SpoolFolder>> byOwner = Map.of();
        try {
            Set<String> marked = marked(others.stream().map(SpoolFolder::id).toList());
            byOwner = others.stream().collect(Collectors.partitioningBy(each -> marked.contains(each.id())));
        } finally {
            byOwner.getOrDefault(false, others).forEach(SpoolFolder::release);
        }
        List<SpoolFolder> own = byOwner.get(true);
        own.forEach(each -> LOG.info("broker {}: the messages in '{}' were written for it under another address or user",
                login, each.path()));
        synchronized (takingOver) {
            takeOver(own);
        }
    }

    /** Returns those of the ids of publishers that wrote to this broker; none if it does not say. Lock not held. */
    Set<String> marked(List<String> ids) throws InterruptedException {
        try {
            return ids.isEmpty() ? Set.of() : MarkSearch.marked(login, ids);
        } catch (BrokerException e) {
            LOG.info("{}: the broker of {} spools is not known: {}", login, ids.size(), e.getMessage());
            return Set.of();
        }
    }

    /** True if what is left below a root is taken over, and the broker can be asked for marks. */
    boolean canAsk(Path root) {
        return retention.knows(root) && isConnected();
    }

    /** The id under which the messages are left on disk if this publisher ends; null if they are not, or it is connected. */
    String leavableId() {
        return isConnected() ? null : retention.spoolId();
    }

    private boolean isConnected() {
        lock.lock();
        try {
            return connection.current() != null;
        } finally {
            lock.unlock();
        }
    }

    /** Sends what the broker lacks of the messages in such folders, on a new connection. */
    private void takeOver(List<SpoolFolder> folders) {
        if (folders.isEmpty()) {
            return;
        }
        List<Predecessor> found = Retention.read(folders); // without the lock, for which event loops may wait
        lock.lock();
        try {
            if (connection.isClosed()) {
                folders.forEach(SpoolFolder::release);
                return;
            }
            newestRetained.takeOver(retention.takeOver(found));
            Connection former = connection.current();
            if (former != null) {
                forgetConnection.run();
                former.abandon();
            }
            connection.open();
        } finally {
            lock.unlock();
        }
    }
}
