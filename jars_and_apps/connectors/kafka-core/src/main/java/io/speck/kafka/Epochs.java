package io.speck.kafka;

import java.util.Optional;

/**
 * The epochs of a partition: after a broker without replicas has lost the end of its log, other messages have the same
 * offsets, in a higher epoch.
 *
 * <p>An epoch is the leader epoch that Kafka stores with each record, below 2^31, or {@link #UNKNOWN}. A topic that is made
 * anew counts from 0 again, so that a reader adds 2^32 for each time that it has seen this.
 */
final class Epochs {
    static final long UNKNOWN = -1;
    /** The epoch of messages whose topic was deleted; no record has this value. */
    static final long GONE = Integer.MAX_VALUE;
    private static final int ANEW_BITS = 32;

    private Epochs() {}

    /** Returns the epoch of a record in a topic that was made anew this often while it was read. */
    static long of(Optional<Integer> leaderEpoch, long timesMadeAnew) {
        return (timesMadeAnew << ANEW_BITS) + leaderEpoch.map(Integer::longValue).orElse(UNKNOWN);
    }

    /** Returns how often the topic had been made anew before a record of this epoch. */
    static long timesMadeAnew(long epoch) {
        return epoch - UNKNOWN >> ANEW_BITS;
    }

    /** Returns the leader epoch; empty for none that is known. */
    static Optional<Integer> leader(long epoch) {
        int leader = (int) epoch;
        return leader < 0 ? Optional.empty() : Optional.of(leader);
    }

    /** Returns the leader epoch, or {@link #UNKNOWN}, without the times at which a topic was made anew. */
    static long recorded(long epoch) {
        return (int) epoch;
    }
}
