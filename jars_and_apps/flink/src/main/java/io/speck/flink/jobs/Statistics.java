package io.speck.flink.jobs;

import io.speck.flink.mqtt.FlinkMqttSink;
import io.speck.flink.mqtt.MqttJob;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;

/**
 * How readings are counted, and how a window is written down.
 *
 * @param site its name in the objects
 * @param window length, in microseconds
 * @param lateness how far behind the newest reading a window is still held, in microseconds
 * @param slowest how many segments are named
 * @param ahead how far ahead of the clock the time of a reading may be, in microseconds
 */
record Statistics(String site, long window, long lateness, int slowest, long ahead) implements Serializable {
    private static final DateTimeFormatter ISO = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss");
    private static final long MICROS = 1_000_000;
    private static final int MOST_SLOWEST = 25_000;

    /** By the arguments {@code window}, {@code lateness}, {@code slowest} and {@code ahead}. */
    static Statistics of(MqttJob job, String site) {
        return new Statistics(site,
                job.argument("window", "15 minutes", Interval::window, Interval.EXPECTED),
                job.argument("lateness", "2 days", Interval::micros, Interval.EXPECTED),
                (int) job.number("slowest", 3, 1, MOST_SLOWEST),
                job.argument("ahead", "1 day", Interval::micros, Interval.EXPECTED));
    }

    /** Counts the readings of the job's source topic, and writes each window that changed to its sink topic. */
    static void run(MqttJob job, String site) throws Exception {
        write(job, site);
        job.execute();
    }

    static void write(MqttJob job, String site) {
        DataStream<WindowUpdate> updates = of(job, site).count(job.texts());
        job.write(updates, job.sink(FlinkMqttSink.of(WindowUpdate::bytes)).sequence(WindowUpdate::number).build());
    }

    /**
     * One subtask counts: the work is small, and only one row of numbers for the updates keeps their order. It is a
     * keyed stream in form alone, for the sake of timers, and stays in one task with its source.
     */
    DataStream<WindowUpdate> count(DataStream<String> lines) {
        return DataStreamUtils.reinterpretAsKeyedStream(lines, line -> 0, Types.INT)
                .process(new WindowCounter(this)).name("windowed aggregation: windows").uid("windows")
                .setParallelism(1);
    }

    /**
     * Checks the time of a reading. One of the far future, as of a sensor with a wrong clock, would move the watermark so
     * far that all readings after it are late. There is no bound in the past: old readings may be replayed.
     *
     * @param clock milliseconds since 1970
     * @throws DateTimeException if the time is too far ahead; the job's {@code on_error} decides about the message
     */
    void checkTime(long time, long clock) {
        if (time - clock * 1000 > ahead) {
            throw new DateTimeException("the time " + text(time)
                    + " of a reading is too far ahead of the clock (argument 'ahead')");
        }
    }

    long start(long time) {
        return time - Math.floorMod(time, window);
    }

    /** A JSON object with the keys, and in the form, of the PySpark jobs. */
    String text(long start, WindowTotals totals) {
        StringBuilder text = new StringBuilder("{\"site\":").append(Json.quoted(site));
        text.append(",\"start\":").append(iso(start)).append(",\"end\":").append(iso(start + window));
        text.append(",\"readings\":").append(totals.readings).append(",\"vehicles\":").append(totals.vehicles);
        text.append(",\"mean_speed\":").append(totals.meanSpeed());
        return text.append(",\"slowest\":").append(Json.array(totals.slowest(slowest))).append('}').toString();
    }

    private static String iso(long time) {
        return Json.quoted(text(time));
    }

    private static String text(long time) {
        return LocalDateTime.ofEpochSecond(Math.floorDiv(time, MICROS), 0, ZoneOffset.UTC).format(ISO);
    }

    /**
     * What is written of a window.
     *
     * @param number of the last reading in it
     * @param object its statistics up to that reading, as JSON
     */
    public record WindowUpdate(long number, String object) {
        byte[] bytes() {
            return object.getBytes(StandardCharsets.UTF_8);
        }
    }
}
