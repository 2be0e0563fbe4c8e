package io.speck.flink.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.speck.flink.jobs.Statistics.WindowUpdate;
import java.time.DateTimeException;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;

/** The counting operator under a clock and crashes of the test's making. */
class WindowCounterTest {
    private static final Statistics STATISTICS = new Statistics("A", Interval.window("15 minutes"),
            Interval.micros("2 hours"), 3, Interval.micros("100 years")); // the harness begins in 1970
    private static final long TICK = 250;
    private static final long DAY_MILLIS = 86_400_000;
    /** When every timer is due, those of before a crash included. */
    private static final long LATER = 1_000_000;

    private static KeyedOneInputStreamOperatorTestHarness<Integer, String, WindowUpdate> harness(
            OperatorSubtaskState state, long clock) throws Exception {
        return harness(STATISTICS, state, clock);
    }

    private static KeyedOneInputStreamOperatorTestHarness<Integer, String, WindowUpdate> harness(
            Statistics statistics, OperatorSubtaskState state, long clock) throws Exception {
        KeyedOneInputStreamOperatorTestHarness<Integer, String, WindowUpdate> harness =
                new KeyedOneInputStreamOperatorTestHarness<>(new KeyedProcessOperator<>(new WindowCounter(statistics)),
                        line -> 0, Types.INT);
        harness.setup();
        if (state != null) {
            harness.initializeState(state);
        }
        harness.open();
        harness.setProcessingTime(clock);
        return harness;
    }

    private static String line(String time, int speed, int vehicles, int segment) {
        return "OK,49," + speed + ",668,49,2014-08-18T" + time + "," + vehicles + ",22732880," + segment;
    }

    /** In the order of a day, with some that come late; the last of them much too late. */
    private static List<String> day(Random chance) {
        List<String> lines = new ArrayList<>();
        for (int minute = 0; minute < 300; minute++) {
            int shown = Math.max(0, minute - (chance.nextInt(8) == 0 ? chance.nextInt(60) : 0));
            lines.add(line(String.format("%02d:%02d:00", shown / 60, shown % 60), chance.nextInt(90), chance.nextInt(4),
                    chance.nextInt(6)));
        }
        lines.add("nothing like a reading");
        lines.add(line("00:00:00", 1, 1, 1));
        return lines;
    }

    private static String start(String object) {
        return object.replaceFirst(".*\"start\":\"([^\"]*)\".*", "$1");
    }

    /** The windows of a reader that drops numbers it has seen, as readers of stamped messages do. */
    private static Map<String, String> asReaderSees(List<WindowUpdate> updates) {
        Map<String, String> last = new TreeMap<>();
        long mark = -1;
        for (WindowUpdate update : updates) {
            if (update.number() > mark) {
                mark = update.number();
                last.put(start(update.object()), update.object());
            }
        }
        return last;
    }

    private static Map<String, String> withoutCrash(List<String> lines) throws Exception {
        var harness = harness(null, 0);
        for (String line : lines) {
            harness.processElement(line, 0);
        }
        harness.setProcessingTime(TICK);
        List<WindowUpdate> updates = harness.extractOutputValues();
        harness.close();
        return asReaderSees(updates);
    }

    @Test
    void updatesComeByTheClockAndOnlyOfWindowsThatChanged() throws Exception {
        var harness = harness(null, 0);
        harness.processElement(line("07:00:00", 50, 2, 1), 0);
        harness.processElement(line("07:15:00", 60, 5, 4), 0);
        harness.processElement(line("07:01:00", 30, 1, 2), 0);
        assertEquals(List.of(), harness.extractOutputValues());
        harness.setProcessingTime(TICK);
        harness.processElement(line("07:16:00", 80, 0, 4), 0);
        harness.setProcessingTime(2 * TICK);
        assertEquals(List.of(
                new WindowUpdate(2, "{\"site\":\"A\",\"start\":\"2014-08-18T07:15:00\",\"end\":\"2014-08-18T07:30:00\","
                        + "\"readings\":1,\"vehicles\":5,\"mean_speed\":60.0,\"slowest\":[\"4\"]}"),
                new WindowUpdate(3, "{\"site\":\"A\",\"start\":\"2014-08-18T07:00:00\",\"end\":\"2014-08-18T07:15:00\","
                        + "\"readings\":2,\"vehicles\":3,\"mean_speed\":40.0,\"slowest\":[\"2\",\"1\"]}"),
                new WindowUpdate(4, "{\"site\":\"A\",\"start\":\"2014-08-18T07:15:00\",\"end\":\"2014-08-18T07:30:00\","
                        + "\"readings\":2,\"vehicles\":5,\"mean_speed\":60.0,\"slowest\":[\"4\"]}")),
                harness.extractOutputValues());
        harness.close();
    }

    @Test
    void aReadingBehindTheWatermarkIsDroppedAndItsWindowForgotten() throws Exception {
        var harness = harness(null, 0);
        harness.processElement(line("07:00:00", 50, 2, 1), 0);
        harness.processElement(line("09:14:59", 50, 2, 1), 0);
        harness.processElement(line("07:14:00", 50, 2, 1), 0);
        harness.processElement(line("09:15:00", 50, 2, 1), 0);
        harness.processElement(line("07:14:00", 50, 2, 1), 0);
        harness.setProcessingTime(TICK);
        Map<String, String> last = asReaderSees(harness.extractOutputValues());
        harness.close();
        Map<String, String> readings = new LinkedHashMap<>();
        last.forEach((start, object) -> readings.put(start, object.replaceFirst(".*\"readings\":(\\d+).*", "$1")));
        assertEquals(Map.of("2014-08-18T07:00:00", "2", "2014-08-18T09:00:00", "1", "2014-08-18T09:15:00", "1"), readings);
    }

    @Test
    void aReadingOfTheFarFutureFailsAndMovesNothing() throws Exception {
        Statistics statistics = new Statistics("A", Interval.window("15 minutes"), Interval.micros("2 hours"), 3,
                Interval.micros("1 day"));
        long seven = LocalDateTime.parse("2014-08-18T07:00:00").toEpochSecond(ZoneOffset.UTC) * 1000;
        var harness = harness(statistics, null, seven - DAY_MILLIS);
        harness.processElement(line("07:00:00", 50, 2, 1), 0);
        String fault = assertThrows(DateTimeException.class, () -> harness.processElement(line("07:00:01", 60, 2, 2), 0))
                .getMessage();
        assertEquals("the time 2014-08-18T07:00:01 of a reading is too far ahead of the clock (argument 'ahead')", fault);
        assertThrows(DateTimeException.class, () -> harness.processElement(line("23:00:00", 60, 2, 2), 0));
        harness.processElement(line("07:00:00", 30, 1, 3), 0);
        harness.setProcessingTime(seven - DAY_MILLIS + TICK);
        assertEquals(List.of(new WindowUpdate(2, "{\"site\":\"A\",\"start\":\"2014-08-18T07:00:00\","
                + "\"end\":\"2014-08-18T07:15:00\",\"readings\":2,\"vehicles\":3,\"mean_speed\":40.0,"
                + "\"slowest\":[\"3\",\"1\"]}")), harness.extractOutputValues());
        harness.close();
    }

    @Test
    void theEndOfTheStreamGivesOutWhatIsLeft() throws Exception {
        var harness = harness(null, 0);
        harness.processElement(line("07:00:00", 50, 2, 1), 0);
        harness.processWatermark(Long.MAX_VALUE);
        assertEquals(1, harness.extractOutputValues().size());
        harness.close();
    }

    /** Crashes lose what was to be sent, the clock runs otherwise each time, and sends break off anywhere. */
    @Test
    void theLastStateOfEachWindowArrivesThroughCrashes() throws Exception {
        for (int seed = 0; seed < 60; seed++) {
            Random chance = new Random(seed);
            List<String> lines = day(chance);
            assertEquals(withoutCrash(lines), asReaderSees(withCrashes(lines, chance)), "seed " + seed);
        }
    }

    private static List<WindowUpdate> withCrashes(List<String> lines, Random chance) throws Exception {
        List<WindowUpdate> sent = new ArrayList<>();
        OperatorSubtaskState state = null;
        int from = 0;
        for (int crashes = chance.nextInt(5); crashes >= 0; crashes--) {
            long clock = chance.nextInt(1000);
            var harness = harness(state, clock);
            int checkpoint = crashes == 0 ? -1 : from + chance.nextInt(lines.size() - from);
            int end = crashes == 0 ? lines.size() : checkpoint + chance.nextInt(lines.size() - checkpoint);
            int certain = 0;
            for (int at = from; at < end; at++) {
                if (at == checkpoint) {
                    state = harness.snapshot(at, 0);
                    from = at;
                    certain = harness.extractOutputValues().size();
                }
                harness.processElement(lines.get(at), 0);
                clock += chance.nextInt(100);
                harness.setProcessingTime(clock);
            }
            harness.setProcessingTime(LATER);
            List<WindowUpdate> given = harness.extractOutputValues();
            sent.addAll(given.subList(0, crashes == 0 ? given.size() : certain + chance.nextInt(given.size() - certain + 1)));
            harness.close();
        }
        return sent;
    }
}
