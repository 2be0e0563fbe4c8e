package io.speck.sql;

import java.time.Instant;
import java.time.temporal.ChronoUnit;

/**
 * The bound on event times: one row of the far future, as of a device with a wrong clock or unit, would move the watermark
 * so far that all rows after it are late. Such a row is treated as one that does not fit the contract of its topic.
 *
 * <p>The bound is wide. A message that is read again after a restart meets a later clock, so only a row within moments of
 * the bound could be treated in two ways. There is room for local times that a device calls UTC, and for a machine whose
 * clock is behind. Rows of the past have no bound: old messages may be read again.
 */
final class EventTimes {
    /** Seconds by which an event time may be ahead of the clock of this machine; 0 for no bound. */
    private static final String PROPERTY = "speck.sql.aheadSeconds";
    private static final long MOST_SECONDS = Math.min(Long.getLong(PROPERTY, 86_400), Integer.MAX_VALUE);

    private EventTimes() {}

    /** @throws UnparsableMessageException if a time, in milliseconds since 1970, is too far ahead */
    static void check(long time) {
        if (MOST_SECONDS > 0 && time - System.currentTimeMillis() > MOST_SECONDS * 1000) {
            throw new UnparsableMessageException("the event time " + Instant.ofEpochMilli(time) + " is more than "
                    + MOST_SECONDS + " s ahead of the clock of this machine ("
                    + Instant.now().truncatedTo(ChronoUnit.SECONDS) + "; " + PROPERTY + ")");
        }
    }
}
