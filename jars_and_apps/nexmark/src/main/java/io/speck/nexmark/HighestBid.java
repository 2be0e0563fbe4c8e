package io.speck.nexmark;

import java.time.Duration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/**
 * q7: the bids of the highest price in each 10 s, all of them if several have it, once the window is over. The results
 * are bids, and so the highest of the highest of several sites are those of all.
 */
final class HighestBid {
    private static final Duration WINDOW = Duration.ofSeconds(10);

    private HighestBid() {}

    static DataStream<String> of(Events events) {
        DataStream<String> bids = events.timed(Line.BID);
        return Events.ordered(new Highest(Bid.PRICE).in(bids, TumblingEventTimeWindows.of(WINDOW)), WINDOW.toMillis());
    }
}
