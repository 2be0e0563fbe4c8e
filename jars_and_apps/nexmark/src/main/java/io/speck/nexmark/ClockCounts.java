package io.speck.nexmark;

import java.time.Duration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.triggers.TriggerResult;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/**
 * q12: the bids of each user in every 10 s of the clock: rows {@code R,last time of the window,bidder,bids,start,end}. In
 * parts, each site counts by its own clock, and the counts of a window are added up once all sites are past it.
 *
 * <p>Its output depends on a clock, so that after a failure counts may be sent again, or be missing.
 */
final class ClockCounts {
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final int BIDDER = 2;
    private static final int COUNT = 3;

    private ClockCounts() {}

    /** The result, or the counts of one site. */
    static DataStream<String> of(Events events) {
        Counts counts = Counts.of(Bid.BIDDER, Counts.one()).withBounds();
        return Events.ended(
                counts.in(events.timed(Line.BID), TumblingProcessingTimeWindows.of(WINDOW), new ClockOrEnd(), 1));
    }

    /** The result, from the counts of several sites. */
    static DataStream<String> sums(Events events) {
        Counts counts = Counts.of(BIDDER, Counts.field(COUNT)).withBounds();
        return Events.ordered(counts.in(events.timed(Line.ROW), TumblingEventTimeWindows.of(WINDOW),
                events.parallelism()), WINDOW.toMillis());
    }

    /** Fires when the window is over, or earlier at the end of the input. */
    private static final class ClockOrEnd extends Trigger<Object, TimeWindow> {
        private static final long serialVersionUID = 1L;

        @Override
        public TriggerResult onElement(Object element, long time, TimeWindow window, TriggerContext context) {
            context.registerProcessingTimeTimer(window.maxTimestamp());
            context.registerEventTimeTimer(Long.MAX_VALUE);
            return TriggerResult.CONTINUE;
        }

        @Override
        public TriggerResult onProcessingTime(long time, TimeWindow window, TriggerContext context) {
            return TriggerResult.FIRE_AND_PURGE;
        }

        @Override
        public TriggerResult onEventTime(long time, TimeWindow window, TriggerContext context) {
            return TriggerResult.FIRE_AND_PURGE;
        }

        @Override
        public void clear(TimeWindow window, TriggerContext context) {
            context.deleteProcessingTimeTimer(window.maxTimestamp());
            context.deleteEventTimeTimer(Long.MAX_VALUE);
        }
    }
}
