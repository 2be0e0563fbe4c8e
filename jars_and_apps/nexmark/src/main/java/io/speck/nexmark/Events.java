package io.speck.nexmark;

import io.speck.mqtt.Received;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * The input of a program.
 *
 * @param messages of one or more topics
 * @param streams the number of topics; the watermark waits for each of them
 * @param parallelism of the operators after a keyBy
 */
record Events(DataStream<Received> messages, int streams, int parallelism) {
    /** All lines in the order of receipt, marks of progress among them. */
    DataStream<String> lines() {
        return messages.map(Received::text).name("map: lines");
    }

    /** The lines but for marks of progress, with their times and with watermarks. */
    DataStream<String> timed() {
        return messages.transform("process: progress", Types.STRING, new Progress(streams)).uid("progress")
                .setParallelism(1);
    }

    DataStream<String> timed(char kind) {
        return only(kind, timed());
    }

    static DataStream<String> only(char kind, DataStream<String> lines) {
        return lines.filter(line -> Line.is(line, kind)).name("filter: kind");
    }

    /** Projects the lines for which {@code projection} has a result other than null; marks of progress pass. */
    DataStream<String> project(MapFunction<String, String> projection) {
        return projected(lines(), line -> Line.is(line, Line.PROGRESS) ? line : projection.map(line));
    }

    static DataStream<String> projected(DataStream<String> lines, MapFunction<String, String> projection) {
        return lines.<String>flatMap((line, out) -> {
            String projected = projection.map(line);
            if (projected != null) {
                out.collect(projected);
            }
        }).returns(Types.STRING).name("flat map: project");
    }

    /** Passes the results of operators of parallelism 1 on as they come, and marks the end of the input. */
    static DataStream<String> ended(DataStream<String> lines) {
        return lines.transform("process: ended", Types.STRING, new Ended()).setParallelism(1);
    }

    /** Orders the results of windows and timers, and marks the end of every period (0: of the input alone). */
    static DataStream<String> ordered(DataStream<String> lines, long period) {
        return lines.transform("sort: ordered", Types.STRING, new Ordered(period)).uid("ordered").setParallelism(1);
    }
}
