package io.speck.nexmark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * q11: the bids of each user in each session, which ends when 10 s have passed without a bid: rows {@code R,last time of the
 * session,bidder,bids,start,end}. In parts, each site gives out the first and last time and the count of a user's bids in
 * every 2 s, less than the gap of a session, and sessions are made of these spans.
 */
final class UserSessions {
    private static final Duration GAP = Duration.ofSeconds(10);
    private static final Duration SLIDE = Duration.ofSeconds(2);
    /** The fields of a span. */
    private static final int BIDDER = 2;
    private static final int FIRST = 3;
    private static final int LAST = 4;
    private static final int COUNT = 5;

    private UserSessions() {}

    static DataStream<String> of(Events events) {
        Counts counts = Counts.of(Bid.BIDDER, Counts.one()).withBounds();
        return Events.ordered(counts.in(events.timed(Line.BID), new Sessions(Line.TIME, Line.TIME),
                events.parallelism()), 0);
    }

    /** The spans of each user's bids at one site, {@code R,start of the slide,bidder,first time,last time,bids}. */
    static DataStream<String> spans(Events events) {
        DataStream<String> spans = events.timed(Line.BID).keyBy(line -> Line.number(line, Bid.BIDDER), Types.LONG)
                .window(TumblingEventTimeWindows.of(SLIDE)).aggregate(new Span(), new Row())
                .name("spans").uid("spans").setParallelism(events.parallelism());
        return Events.ordered(spans, SLIDE.toMillis());
    }

    /** The result, from the spans of several sites. */
    static DataStream<String> sessions(Events events) {
        Counts counts = Counts.of(BIDDER, Counts.field(COUNT)).withBounds();
        return Events.ordered(counts.in(events.timed(Line.ROW), new Sessions(FIRST, LAST), events.parallelism()), 0);
    }

    /**
     * The windows of bids, or of spans of them, from the first time to a gap behind the last. Flink's own merge windows that
     * only touch, if the watermark has not passed yet: then the result would depend on when lines come.
     */
    private static final class Sessions extends EventTimeSessionWindows {
        private static final long serialVersionUID = 1L;

        private final int first;
        private final int last;

        /** By the fields of the first and the last time. */
        Sessions(int first, int last) {
            super(GAP.toMillis());
            this.first = first;
            this.last = last;
        }

        @Override
        public Collection<TimeWindow> assignWindows(Object line, long time, WindowAssignerContext context) {
            String text = (String) line;
            return List.of(new TimeWindow(Line.number(text, first), Line.number(text, last) + sessionTimeout));
        }

        @Override
        public void mergeWindows(Collection<TimeWindow> windows, MergeCallback<TimeWindow> callback) {
            List<TimeWindow> group = new ArrayList<>();
            TimeWindow session = null;
            for (TimeWindow each : windows.stream().sorted(Comparator.comparingLong(TimeWindow::getStart)).toList()) {
                if (session == null || each.getStart() >= session.getEnd()) {
                    merge(group, session, callback);
                    group = new ArrayList<>();
                    session = each;
                }
                group.add(each);
                session = session.cover(each);
            }
            merge(group, session, callback);
        }

        private static void merge(List<TimeWindow> group, TimeWindow session, MergeCallback<TimeWindow> callback) {
            if (group.size() > 1) {
                callback.merge(group, session);
            }
        }
    }

    /** First time, last time, and count. */
    private static final class Span
            implements AggregateFunction<String, Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> {
        private static final long serialVersionUID = 1L;

        @Override
        public Tuple3<Long, Long, Long> createAccumulator() {
            return Tuple3.of(Long.MAX_VALUE, Long.MIN_VALUE, 0L);
        }

        @Override
        public Tuple3<Long, Long, Long> add(String bid, Tuple3<Long, Long, Long> span) {
            long time = Line.time(bid);
            return merge(span, Tuple3.of(time, time, 1L));
        }

        @Override
        public Tuple3<Long, Long, Long> getResult(Tuple3<Long, Long, Long> span) {
            return span;
        }

        @Override
        public Tuple3<Long, Long, Long> merge(Tuple3<Long, Long, Long> one, Tuple3<Long, Long, Long> other) {
            return Tuple3.of(Math.min(one.f0, other.f0), Math.max(one.f1, other.f1), one.f2 + other.f2);
        }
    }

    private static final class Row extends ProcessWindowFunction<Tuple3<Long, Long, Long>, String, Long, TimeWindow> {
        private static final long serialVersionUID = 1L;

        @Override
        public void process(Long bidder, Context context, Iterable<Tuple3<Long, Long, Long>> spans,
                Collector<String> out) {
            Tuple3<Long, Long, Long> span = spans.iterator().next();
            // Of the time of the slide's start: other spans of the slide, and their sessions, may begin there.
            out.collect(Line.row(context.window().getStart(), bidder, span.f0, span.f1, span.f2));
        }
    }
}
