package io.speck.connector.writer;

import java.io.Serializable;

/**
 * The acknowledgements of a broker within the last minute, by all writers of this process and login.
 *
 * @param broker address of the broker
 * @param leastMillis the shortest time from a message to its acknowledgement; -1 without any acknowledgement
 * @param medianMillis the median of these times, to about 6 percent; -1 without any acknowledgement
 * @param windowFull share of the time (0 to 1) in which messages waited for room in the in-flight window
 */
public record AckMetrics(String broker, double leastMillis, double medianMillis, double windowFull)
        implements Serializable {
    /** The figures of a writer that has not connected yet. */
    public static final AckMetrics NONE = new AckMetrics("", -1, -1, 0);
}
