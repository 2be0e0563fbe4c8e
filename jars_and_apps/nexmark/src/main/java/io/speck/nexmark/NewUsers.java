package io.speck.nexmark;

import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * q8: the persons who registered and opened an auction within the same 10 s: rows {@code R,last time of the
 * window,person,name,start of the window}. In parts, each site cuts its persons and auctions, which are joined then.
 */
final class NewUsers {
    private static final Duration WINDOW = Duration.ofSeconds(10);
    /** The fields of cut lines: a person or a seller, and a name. */
    private static final int PERSON = 2;
    private static final int NAME = 3;

    private NewUsers() {}

    static DataStream<String> of(Events events) {
        return join(Events.projected(events.timed(), line -> switch (Line.kind(line)) {
            case Line.PERSON -> person(line);
            case Line.AUCTION -> auction(line);
            default -> null;
        }), events.parallelism());
    }

    /** The result, from cut persons and auctions. */
    static DataStream<String> join(Events events) {
        return join(events.timed(), events.parallelism());
    }

    static String person(String line) {
        return Line.of(Line.PERSON, Line.time(line), Line.field(line, Person.ID), Line.field(line, Person.NAME));
    }

    static String auction(String line) {
        return Line.of(Line.AUCTION, Line.time(line), Line.field(line, Auction.SELLER));
    }

    private static DataStream<String> join(DataStream<String> cut, int parallelism) {
        DataStream<String> joined = cut.keyBy(line -> Line.number(line, PERSON), Types.LONG)
                .window(TumblingEventTimeWindows.of(WINDOW)).aggregate(new Both(), new Row())
                .name("join").uid("join").setParallelism(parallelism);
        return Events.ordered(joined, WINDOW.toMillis());
    }

    /** The name and the auctions of a person in a window. Its fields are public, since Flink serializes it as a POJO. */
    public static final class Known {
        /** Null while the person has not registered in the window. */
        public String name;
        public boolean sells;
    }

    private static final class Both implements AggregateFunction<String, Known, Known> {
        private static final long serialVersionUID = 1L;

        @Override
        public Known createAccumulator() {
            return new Known();
        }

        @Override
        public Known add(String line, Known known) {
            if (Line.is(line, Line.PERSON)) {
                known.name = Line.field(line, NAME);
            } else {
                known.sells = true;
            }
            return known;
        }

        @Override
        public Known getResult(Known known) {
            return known;
        }

        @Override
        public Known merge(Known one, Known other) {
            one.name = one.name == null ? other.name : one.name;
            one.sells |= other.sells;
            return one;
        }
    }

    private static final class Row extends ProcessWindowFunction<Known, String, Long, TimeWindow> {
        private static final long serialVersionUID = 1L;

        @Override
        public void process(Long person, Context context, Iterable<Known> each, Collector<String> out) {
            Known known = each.iterator().next();
            if (known.name != null && known.sells) {
                TimeWindow window = context.window();
                out.collect(Line.row(window.maxTimestamp(), person, known.name, window.getStart()));
            }
        }
    }
}
