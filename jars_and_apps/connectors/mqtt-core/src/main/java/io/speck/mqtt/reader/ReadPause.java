package io.speck.mqtt.reader;

import io.speck.mqtt.net.Connection;

/** Pauses reading while more bytes are buffered than allowed. Not thread-safe; guarded by the reader's lock. */
final class ReadPause {
    private final long limitBytes;
    private boolean paused;

    ReadPause(long limitBytes) {
        this.limitBytes = limitBytes;
    }

    /** A new connection is being read. */
    void reset() {
        paused = false;
    }

    void beginIfFull(long bufferedBytes, Connection connection) {
        if (!paused && bufferedBytes > limitBytes) {
            paused = true;
            connection.setReading(false);
        }
    }

    boolean isOn() {
        return paused;
    }

    /** @param connection the present one, or null */
    void endIfLow(long bufferedBytes, Connection connection) {
        if (paused && connection != null && bufferedBytes <= limitBytes / 2) {
            paused = false;
            connection.setReading(true);
        }
    }
}
