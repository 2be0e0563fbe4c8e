package io.speck.nexmark;

import java.util.Set;
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
 * q3: the persons in Oregon, Idaho or California who sell in category 10: rows {@code R,time of the later of the
 * two,name,city,state,auction}. In parts, each site selects and cuts its persons and auctions, which are joined then.
 */
final class LocalItems {
    private static final long CATEGORY = 10;
    private static final Set<String> STATES = Set.of("OR", "ID", "CA");
    /** The fields of cut lines. */
    private static final int PERSON = 2;
    private static final int PERSONS_REST = 3;
    private static final int AUCTION = 3;

    private LocalItems() {}

    static DataStream<String> of(Events events) {
        return join(Events.projected(events.timed(), line -> switch (Line.kind(line)) {
            case Line.PERSON -> person(line);
            case Line.AUCTION -> auction(line);
            default -> null;
        }));
    }

    /** The result, from selected persons and auctions. */
    static DataStream<String> join(Events events) {
        return join(events.timed());
    }

    static String person(String line) {
        String state = Line.field(line, Person.STATE);
        return !STATES.contains(state) ? null : Line.of(Line.PERSON, Line.time(line), Line.field(line, Person.ID),
                Line.field(line, Person.NAME), Line.field(line, Person.CITY), state);
    }

    static String auction(String line) {
        return Line.number(line, Auction.CATEGORY) != CATEGORY ? null : Line.of(Line.AUCTION, Line.time(line),
                Line.field(line, Auction.SELLER), Line.field(line, Auction.ID));
    }

    private static DataStream<String> join(DataStream<String> cut) {
        DataStream<String> joined = cut.keyBy(line -> Line.number(line, PERSON), Types.LONG).process(new Join())
                .name("join").uid("join").setParallelism(1);
        return Events.ended(joined);
    }

    /** Keeps a person, and the auctions that came before it; whichever is the later one yields a row. */
    private static final class Join extends KeyedProcessFunction<Long, String, String> {
        private static final long serialVersionUID = 1L;

        private transient ValueState<String> person;
        private transient ListState<String> auctions;

        @Override
        public void open(OpenContext context) {
            person = getRuntimeContext().getState(new ValueStateDescriptor<>("person", Types.STRING));
            auctions = getRuntimeContext().getListState(new ListStateDescriptor<>("auctions", Types.STRING));
        }

        @Override
        public void processElement(String line, Context context, Collector<String> out) throws Exception {
            if (Line.is(line, Line.PERSON)) {
                person.update(line);
                for (String auction : auctions.get()) {
                    out.collect(row(line, auction));
                }
                auctions.clear();
            } else if (person.value() != null) {
                out.collect(row(person.value(), line));
            } else {
                auctions.add(line);
            }
        }

        private static String row(String person, String auction) {
            return Line.row(Math.max(Line.time(person), Line.time(auction)), Line.field(person, PERSONS_REST),
                    Line.field(person, PERSONS_REST + 1), Line.field(person, PERSONS_REST + 2),
                    Line.field(auction, AUCTION));
        }
    }
}
