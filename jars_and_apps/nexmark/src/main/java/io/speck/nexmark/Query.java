package io.speck.nexmark;

import io.speck.flink.mqtt.MqttJob;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * Runs one query of Nexmark, or the part of one that runs at a site; the argument {@code part} names it, and {@code
 * streams} (1) is the number of topics that it reads. A query's own name is the query in one job; the parts are named
 * {@code QUERY-PART}.
 */
public final class Query {
    private static final int MOST_STREAMS = 1000;

    /** A part, as a function of its input. */
    @FunctionalInterface
    interface Part {
        DataStream<String> of(Events events);
    }

    static final Map<String, Part> PARTS = new TreeMap<>();

    static {
        PARTS.put("q0", Events::lines);
        PARTS.put("q1", events -> events.project(Selections::euros));
        PARTS.put("q2", events -> events.project(Selections::everyHundredTwentyThird));
        PARTS.put("q3", LocalItems::of);
        PARTS.put("q3-persons", events -> events.project(LocalItems::person));
        PARTS.put("q3-auctions", events -> events.project(LocalItems::auction));
        PARTS.put("q3-join", LocalItems::join);
        PARTS.put("q4", CategoryAverage::of);
        PARTS.put("q4-auctions", events -> events.project(CategoryAverage::auction));
        PARTS.put("q4-rising", CategoryAverage::rising);
        PARTS.put("q4-winning", CategoryAverage::winning);
        PARTS.put("q4-average", CategoryAverage::average);
        PARTS.put("q5", HotItems::of);
        PARTS.put("q5-counts", HotItems::counts);
        PARTS.put("q5-sums", HotItems::sums);
        PARTS.put("q5-hottest", HotItems::hottest);
        PARTS.put("q7", HighestBid::of);
        PARTS.put("q8", NewUsers::of);
        PARTS.put("q8-persons", events -> events.project(NewUsers::person));
        PARTS.put("q8-auctions", events -> events.project(NewUsers::auction));
        PARTS.put("q8-join", NewUsers::join);
        PARTS.put("q11", UserSessions::of);
        PARTS.put("q11-spans", UserSessions::spans);
        PARTS.put("q11-sessions", UserSessions::sessions);
        PARTS.put("q12", ClockCounts::of);
        PARTS.put("q12-sums", ClockCounts::sums);
    }

    private Query() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        Part part = job.argument("part", "", Query::part, "one of " + String.join(", ", PARTS.keySet()));
        int streams = (int) job.number("streams", 1, 1, MOST_STREAMS);
        job.write(part.of(new Events(job.messages(), streams, job.parallelism())));
        job.execute();
    }

    private static Part part(String name) {
        Part part = PARTS.get(name);
        if (part == null) {
            throw new IllegalArgumentException(name);
        }
        return part;
    }
}
