package io.speck.nexmark;

import java.time.Duration;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * q4: the mean of the winning bids of all auctions of a category, rounded down: a row {@code R,time of the
 * close,category,mean} whenever an auction closes that had a bid; auctions close in the order of time and number.
 *
 * <p>In parts, each site cuts its auctions, and of the bids for an auction keeps those above all earlier ones: the
 * highest bid until the auction expires is among them, whenever that is, since no bid is earlier than its auction.
 */
final class CategoryAverage {
    /** An auction without bids for so long is forgotten at a site; a further bid would only be sent in vain. */
    private static final long QUIET = Duration.ofMinutes(10).toMillis();
    /** The fields of cut lines. */
    private static final int AUCTION = 2;
    private static final int CATEGORY = 3;
    private static final int EXPIRES = 4;
    private static final int PRICE = 3;
    private static final int FINAL_PRICE = 4;

    private CategoryAverage() {}

    static DataStream<String> of(Events events) {
        DataStream<String> cut = Events.projected(events.timed(), line -> switch (Line.kind(line)) {
            case Line.AUCTION -> auction(line);
            case Line.BID -> bid(line);
            default -> null;
        });
        return average(Events.only(Line.ROW, winning(cut, events.parallelism())));
    }

    /** The bids at one site that are above all earlier ones for the same auction there. */
    static DataStream<String> rising(Events events) {
        DataStream<String> bids = Events.projected(events.timed(Line.BID), CategoryAverage::bid);
        return Events.ended(bids.keyBy(line -> Line.number(line, AUCTION), Types.LONG).process(new Rising())
                .name("process: rising").uid("rising").setParallelism(1));
    }

    /** The winning bids, {@code R,time of the close,auction,category,price}, from cut auctions and rising bids. */
    static DataStream<String> winning(Events events) {
        return winning(events.timed(), events.parallelism());
    }

    /** The result, from the winning bids. */
    static DataStream<String> average(Events events) {
        return average(events.timed(Line.ROW));
    }

    static String auction(String line) {
        return Line.of(Line.AUCTION, Line.time(line), Line.field(line, Auction.ID), Line.field(line, Auction.CATEGORY),
                Line.field(line, Auction.EXPIRES));
    }

    private static String bid(String line) {
        return Line.of(Line.BID, Line.time(line), Line.field(line, Bid.AUCTION), Line.field(line, Bid.PRICE));
    }

    private static DataStream<String> winning(DataStream<String> cut, int parallelism) {
        return Events.ordered(cut.keyBy(line -> Line.number(line, AUCTION), Types.LONG).process(new Winning())
                .name("join: winning").uid("winning").setParallelism(parallelism), 0);
    }

    private static DataStream<String> average(DataStream<String> winning) {
        return Events.ended(winning.keyBy(line -> Line.number(line, CATEGORY), Types.LONG).process(new Average())
                .name("aggregation: average").uid("average").setParallelism(1));
    }

    private static final class Rising extends KeyedProcessFunction<Long, String, String> {
        private static final long serialVersionUID = 1L;

        private transient ValueState<Long> highest;
        private transient ValueState<Long> last;

        @Override
        public void open(OpenContext context) {
            highest = getRuntimeContext().getState(new ValueStateDescriptor<>("highest", Types.LONG));
            last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.LONG));
        }

        @Override
        public void processElement(String bid, Context context, Collector<String> out) throws Exception {
            if (last.value() == null) {
                context.timerService().registerEventTimeTimer(context.timestamp() + QUIET);
            }
            last.update(context.timestamp());
            long price = Line.number(bid, PRICE);
            if (highest.value() == null || price > highest.value()) {
                highest.update(price);
                out.collect(bid);
            }
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            if (last.value() + QUIET > time) {
                context.timerService().registerEventTimeTimer(last.value() + QUIET);
            } else {
                highest.clear();
                last.clear();
            }
        }
    }

    /** Keeps an auction, and the bids that came before it, as other topics may be ahead of its own. */
    private static final class Winning extends KeyedProcessFunction<Long, String, String> {
        private static final long serialVersionUID = 1L;

        private transient ValueState<String> auction;
        private transient ValueState<Long> highest;
        private transient ListState<String> early;

        @Override
        public void open(OpenContext context) {
            auction = getRuntimeContext().getState(new ValueStateDescriptor<>("auction", Types.STRING));
            highest = getRuntimeContext().getState(new ValueStateDescriptor<>("highest", Types.LONG));
            early = getRuntimeContext().getListState(new ListStateDescriptor<>("early", Types.STRING));
        }

        @Override
        public void processElement(String line, Context context, Collector<String> out) throws Exception {
            if (Line.is(line, Line.AUCTION)) {
                begin(line);
                context.timerService().registerEventTimeTimer(Line.number(line, EXPIRES));
            } else if (auction.value() != null) {
                bid(auction.value(), line);
            } else {
                early.add(line);
                context.timerService().registerEventTimeTimer(context.timestamp());
            }
        }

        private void begin(String line) throws Exception {
            auction.update(line);
            for (String bid : early.get()) {
                bid(line, bid);
            }
            early.clear();
        }

        private void bid(String opened, String bid) throws Exception {
            long time = Line.time(bid);
            long price = Line.number(bid, PRICE);
            boolean open = Line.time(opened) <= time && time <= Line.number(opened, EXPIRES);
            if (open && (highest.value() == null || price > highest.value())) {
                highest.update(price);
            }
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            String opened = auction.value();
            if (opened == null) {
                // Its auction would have come by now: it has closed before.
                early.clear();
            } else if (time == Line.number(opened, EXPIRES)) {
                if (highest.value() != null) {
                    out.collect(Line.row(time, context.getCurrentKey(), Line.field(opened, CATEGORY), highest.value()));
                }
                auction.clear();
                highest.clear();
            }
        }
    }

    private static final class Average extends KeyedProcessFunction<Long, String, String> {
        private static final long serialVersionUID = 1L;

        private transient ValueState<Long> sum;
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            sum = getRuntimeContext().getState(new ValueStateDescriptor<>("sum", Types.LONG));
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(String winning, Context context, Collector<String> out) throws Exception {
            sum.update((sum.value() == null ? 0 : sum.value()) + Line.number(winning, FINAL_PRICE));
            count.update((count.value() == null ? 0 : count.value()) + 1);
            out.collect(Line.row(Line.time(winning), context.getCurrentKey(), sum.value() / count.value()));
        }
    }
}
