package io.speck.sql.flink;

import io.speck.flink.mqtt.MqttJob;
import io.speck.sql.Join;
import io.speck.sql.SqlProgram;
import java.time.Duration;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.types.Row;

/** Runs a query; the argument {@code program} is its canonical form. */
public final class SqlJob {
    private SqlJob() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        String text = job.argument("program", "");
        SqlProgram program = SqlProgram.of(text);
        if (program.sendsFrames()) {
            job.write(sent(job, text, program));
        } else if (program.join() != null) {
            job.onlySourceChainFails();
            job.write(joined(job, text, program.join()));
        } else if (program.windows() == null) {
            job.write(job.messages().flatMap(new DecodeToText(text)).returns(Types.STRING).name("query").uid("query"));
        } else {
            job.onlySourceChainFails();
            job.write(windowed(job, text, program));
        }
        job.execute();
    }

    /** The frames of an input job; all of it is in one chain, with the same state for each cut. */
    private static DataStream<String> sent(MqttJob job, String text, SqlProgram program) {
        return job.messages().transform("frames", Types.STRING,
                program.windows() == null ? new SendRows(text) : new MergeSlides(text)).uid("slides");
    }

    /** The operators have fixed names in the state. Rows of one window end in an order of their own, so they are sorted. */
    private static DataStream<String> windowed(MqttJob job, String text, SqlProgram program) {
        SqlProgram.Windows windows = program.windows();
        return decoded(job, text, RowTypes.before(windows, program.isPart()))
                .keyBy(new Keys(windows.keys().size()), RowTypes.keys(windows))
                .window(windows.session() ? new SessionWindows(windows.sizeMillis()) : sliding(windows))
                .aggregate(new Totals(text), new WindowRows(!windows.keys().isEmpty()), RowTypes.totals(windows),
                        RowTypes.totals(windows), RowTypes.behind(windows))
                .name("windows").uid("windows").setParallelism(job.parallelism())
                .flatMap(new EncodeRow(text)).returns(Types.STRING).name("encode").uid("encode")
                .setParallelism(job.parallelism())
                .transform("order", Types.STRING, new Ordered(text)).uid("order").setParallelism(1);
    }

    /** The rows before the windows, or the join. */
    private static DataStream<Row> decoded(MqttJob job, String text, TypeInformation<Row> types) {
        return job.messages().transform("decode", types, new DecodeTimed(text)).uid("decode-timed").setParallelism(1);
    }

    private static SlidingEventTimeWindows sliding(SqlProgram.Windows windows) {
        return SlidingEventTimeWindows.of(Duration.ofMillis(windows.sizeMillis()),
                Duration.ofMillis(windows.slideMillis()));
    }

    /** The results of a join, whose state has the same names for all columns. */
    private static DataStream<String> joined(MqttJob job, String text, Join join) {
        KeyedStream<Row, String> rows = decoded(job, text, RowTypes.tagged()).keyBy(RowTypes::key, Types.STRING);
        SingleOutputStreamOperator<String> results = join.byTime()
                ? rows.transform("join", Types.STRING, new JoinByTime(text)).uid("join-by-time")
                : rows.window(sliding(join.windows())).process(new JoinWindow(text), Types.STRING)
                        .name("join").uid("join-windows");
        return results.setParallelism(job.parallelism())
                .transform("order", Types.STRING, new Ordered(text)).uid("order").setParallelism(1);
    }
}
