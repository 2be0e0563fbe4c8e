package io.speck.mqtt.reader;

import io.speck.mqtt.net.Runtime;

/** An engine that waits for messages of a stream. Not thread-safe; guarded by the reader's lock. */
final class Waiter {
    private Runnable callback;

    /** Sets what is run once, by the next {@link #wake}. */
    void set(Runnable callback) {
        this.callback = callback;
    }

    /** Runs the callback in another thread, since it may take locks of its own. */
    void wake() {
        if (callback != null) {
            Runtime.LOOPS.execute(callback);
            callback = null;
        }
    }
}
