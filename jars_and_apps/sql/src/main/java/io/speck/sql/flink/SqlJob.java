package io.speck.sql.flink;

import io.speck.flink.mqtt.MqttJob;
import io.speck.sql.SqlProgram;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.types.Row;

/** Runs a query; the argument {@code program} is its canonical form. */
public final class SqlJob {
    private SqlJob() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        String text = job.argument("program", "");
        SqlProgram program = SqlProgram.of(text);
        if (program.windows() == null) {
            job.write(job.messages().flatMap(new DecodeToText(text)).returns(Types.STRING).name("query").uid("query"));
        } else {
            job.onlySourceChainFails();
            job.write(windowed(job, text, program.windows()));
        }
        job.execute();
    }

    /** The operators have fixed names in the state. Rows of one window end in an order of their own, so they are sorted. */
    private static DataStream<String> windowed(MqttJob job, String program, SqlProgram.Windows windows) {
        DataStream<Row> rows = job.messages().flatMap(new DecodeToRow(program)).returns(RowTypes.before(windows))
                .name("decode").uid("decode");
        return timed(rows, windows)
                .keyBy(new Keys(windows.keys().size()), RowTypes.keys(windows))
                .window(SlidingEventTimeWindows.of(Duration.ofMillis(windows.sizeMillis()),
                        Duration.ofMillis(windows.slideMillis())))
                .aggregate(new Totals(program), new WindowRows(!windows.keys().isEmpty()), RowTypes.totals(windows), RowTypes.totals(windows),
                        RowTypes.behind(windows))
                .name("windows").uid("windows").setParallelism(job.parallelism())
                .flatMap(new EncodeRow(program)).returns(Types.STRING).name("encode").uid("encode")
                .setParallelism(job.parallelism())
                .transform("order", Types.STRING, new Ordered()).uid("order").setParallelism(1);
    }

    private static DataStream<Row> timed(DataStream<Row> rows, SqlProgram.Windows windows) {
        WatermarkStrategy<Row> strategy = WatermarkStrategy
                .<Row>forBoundedOutOfOrderness(Duration.ofMillis(windows.watermarkMillis()))
                .withTimestampAssigner((row, before) -> (Long) row.getField(0));
        return rows.assignTimestampsAndWatermarks(strategy).name("time").uid("time");
    }
}
