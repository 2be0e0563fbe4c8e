package io.speck.kafka;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Decides when the control topic is read for stamps of writers that a reader does not know: once a second for each of them,
 * and once for all messages that arrive together, whatever names other programs write into their records.
 */
final class UnknownWriters {
    private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final int MOST_NAMES = 1000;

    private final Map<String, Long> askedNanos = new HashMap<>();

    /** True if the topic is to be read for one of these writers; it is read for all of them then. */
    boolean isDue(List<String> writers, long nowNanos) {
        boolean due = false;
        for (String each : writers) {
            Long asked = askedNanos.get(each);
            if (asked == null || nowNanos - asked >= RETRY_NANOS) {
                due = true;
                if (askedNanos.size() >= MOST_NAMES) {
                    askedNanos.clear();
                }
                askedNanos.put(each, nowNanos);
            }
        }
        return due;
    }
}
