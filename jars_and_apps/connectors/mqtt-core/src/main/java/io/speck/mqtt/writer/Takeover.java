package io.speck.mqtt.writer;

import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Takes the messages over that other processes have left on disk for the broker of a {@link Publisher}, and has sent what the
 * broker lacks of them. Shares the publisher's lock, which its callers do not hold.
 */
final class Takeover {
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
