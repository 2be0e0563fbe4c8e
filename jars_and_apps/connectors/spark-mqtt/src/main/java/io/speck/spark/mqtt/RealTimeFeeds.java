package io.speck.spark.mqtt;

import io.speck.connector.MessageSource;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/**
 * The real-time queries of this process, by their runs. Tasks and orders find them here, so tasks must be executed in the
 * driver's process, as with a local master.
 */
public final class RealTimeFeeds {
    /** The property in which Spark gives a query's thread the id of the run. */
    static final String RUN_PROPERTY = "spark.jobGroup.id";
    private static final Map<String, RealTimeFeed> FEEDS = new ConcurrentHashMap<>();

    private RealTimeFeeds() {}

    /**
     * @param run the run of the query; null if it is not known
     * @param failures treats the messages on which the query failed; null if it fails with its first error
     */
    static RealTimeFeed add(MessageSource source, String run, long maxRows, int partitions, RealTimeFailures failures) {
        RealTimeFeed feed = new RealTimeFeed(run + "/" + UUID.randomUUID(), source, maxRows, partitions, failures);
        FEEDS.put(feed.key(), feed);
        return feed;
    }

    static void remove(RealTimeFeed feed) {
        FEEDS.remove(feed.key());
    }

    /** @throws IllegalStateException if the query is not in this process */
    static RealTimeFeed of(String key) {
        RealTimeFeed feed = FEEDS.get(key);
        if (feed == null) {
            throw new IllegalStateException("a real-time query of the mqtt source runs in the driver's process only"
                    + " (expected a local master)");
        }
        return feed;
    }

    /** Returns the number of tasks of each query, as {@code RUN=NUMBER} with spaces between them. */
    public static String partitions() {
        return FEEDS.values().stream()
                .map(each -> each.key().substring(0, each.key().indexOf('/')) + "=" + each.partitions())
                .collect(Collectors.joining(" "));
    }

    /**
     * Orders a query to end its batch now, and to give out nothing for a minute from the last order on, in which it is
     * to be stopped. To be called again until the answer is "held".
     *
     * @param run the id of the query's run
     * @return "held" if all given out is committed, "ending" if that is under way, "unknown" if there is no such query
     */
    public static String hold(String run) {
        List<RealTimeFeed> found =
                FEEDS.values().stream().filter(each -> each.key().startsWith(run + "/")).toList();
        boolean held = found.stream().map(RealTimeFeed::hold).toList().stream().allMatch(each -> each);
        return found.isEmpty() ? "unknown" : held ? "held" : "ending";
    }
}
