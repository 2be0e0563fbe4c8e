package io.speck.nexmark;

import java.time.Duration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/**
 * q5: the auctions with the most bids in the last 10 s, every 2 s: rows {@code R,last time of the window,auction,bids}.
 * In parts, each site counts the bids of every 2 s, these counts are added up, and then those of five slides.
 */
final class HotItems {
    static final Duration WINDOW = Duration.ofSeconds(10);
    static final Duration SLIDE = Duration.ofSeconds(2);
    private static final int AUCTION = 2;
    private static final int COUNT = 3;

    private HotItems() {}

    static DataStream<String> of(Events events) {
        return hottest(sliding(Counts.of(Bid.AUCTION, Counts.one()), events.timed(Line.BID), events.parallelism()));
    }

    /** The bids of each auction in every slide, at one site. */
    static DataStream<String> counts(Events events) {
        return slides(Counts.of(Bid.AUCTION, Counts.one()), events.timed(Line.BID), events.parallelism());
    }

    /** The counts of several sites added up. */
    static DataStream<String> sums(Events events) {
        return slides(Counts.of(AUCTION, Counts.field(COUNT)), events.timed(Line.ROW), events.parallelism());
    }

    /** The result, from counts of slides. */
    static DataStream<String> hottest(Events events) {
        return hottest(sliding(Counts.of(AUCTION, Counts.field(COUNT)), events.timed(Line.ROW), events.parallelism()));
    }

    private static DataStream<String> slides(Counts counts, DataStream<String> lines, int parallelism) {
        return Events.ordered(counts.in(lines, TumblingEventTimeWindows.of(SLIDE), parallelism), SLIDE.toMillis());
    }

    private static DataStream<String> sliding(Counts counts, DataStream<String> lines, int parallelism) {
        return counts.in(lines, SlidingEventTimeWindows.of(WINDOW, SLIDE), parallelism);
    }

    private static DataStream<String> hottest(DataStream<String> counts) {
        // The counts of one window are of the same time, its last, and so of the same slide.
        return Events.ordered(new Highest(COUNT).in(counts, TumblingEventTimeWindows.of(SLIDE)), SLIDE.toMillis());
    }
}
