package io.speck.mqtt.writer;

import io.speck.mqtt.Login;
import io.speck.mqtt.net.Backoff;
import io.speck.mqtt.net.Runtime;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The {@link Spool} of one publisher, which another one replaces once a disk that has failed works again, such as one that
 * was full. Shares the publisher's lock, which its callers hold unless said otherwise.
 */
final class RenewableSpool {
    private static final Logger LOG = LoggerFactory.getLogger(RenewableSpool.class);
    private static final long RENEWAL_MILLIS = TimeUnit.MINUTES.toMillis(1);
    private static final long RENEWAL_CAP_MILLIS = TimeUnit.HOURS.toMillis(1);

    private final ReentrantLock lock;
    private final Login login;
    private final RetransmissionBuffer buffer;
    private final Consumer<SpoolFolder> newFolder;
    private final Backoff renewal = new Backoff(RENEWAL_MILLIS, RENEWAL_CAP_MILLIS);
    /** Null without a folder for it. Read without the lock too, as is the root. */
    private volatile Spool spool;
    /** The folder for messages on disk; null for none. */
    private volatile Path root;
    /** When a disk that has failed is tried again, in {@link System#nanoTime}. */
    private long renewalNanos = System.nanoTime();
    private boolean renewing;
    private boolean ended;

    /**
     * @param buffer whose messages are held on disk
     * @param newFolder is called with the folder of each spool that is used from then on; lock held
     */
    RenewableSpool(ReentrantLock lock, Login login, RetransmissionBuffer buffer, Consumer<SpoolFolder> newFolder) {
        this.lock = lock;
        this.login = login;
        this.buffer = buffer;
        this.newFolder = newFolder;
    }

    /** Returns the spool; null for none. Lock not needed. */
    Spool current() {
        return spool;
    }

    /** Holds messages below a root from now on, unless they are held below another one. */
    void begin(Path root) {
        if (spool != null) {
            return;
        }
        this.root = root;
        try {
            SpoolFolder folder = SpoolFolder.create(root, login);
            spool = new Spool(folder, lock);
            buffer.spool(spool);
            newFolder.accept(folder);
        } catch (IOException e) {
            LOG.warn("messages that broker {} has not saved yet do not survive a power cut of this machine, since they"
                    + " cannot be written below '{}': {}", login, root, e.toString());
        }
    }

    /** Tries a disk again that has failed. */
    void tryAgain() {
        boolean failed = root != null && (spool == null || spool.hasFailed());
        if (failed && !ended && !renewing && System.nanoTime() - renewalNanos >= 0) {
            renewing = true;
            Runtime.BACKGROUND.execute(this::renew);
        }
    }

    /** Holds the messages in another folder if the disk works by now; lock not held. The former one stays until then. */
    private void renew() {
        Spool former = spool;
        SpoolFolder folder = null;
        Spool fresh = null;
        try {
            folder = SpoolFolder.create(root, login);
            fresh = new Spool(folder, lock);
        } catch (IOException e) {
            LOG.debug("broker {}: {}", login, e.toString());
        }
        boolean works = fresh != null && replace(fresh) && fresh.force();
        lock.lock();
        try {
            renewing = false;
            if (works) {
                LOG.info("messages that broker {} has not saved yet survive a power cut of this machine again", login);
                renewal.reset();
                newFolder.accept(folder);
            } else {
                renewalNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(renewal.nextMillis());
                replace(former);
            }
        } finally {
            lock.unlock();
        }
        Spool obsolete = works ? former : fresh;
        if (obsolete != null) {
            obsolete.delete();
        }
    }

    /** Returns false if this publisher has ended, which leaves the spool as it is. */
    private boolean replace(Spool by) {
        lock.lock();
        try {
            if (!ended) {
                spool = by;
                buffer.spool(by);
            }
            return !ended;
        } finally {
            lock.unlock();
        }
    }

    /** Ends the renewal: the spool stays as it is. */
    void end() {
        ended = true;
    }
}
