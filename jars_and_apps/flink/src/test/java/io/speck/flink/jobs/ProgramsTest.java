package io.speck.flink.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.flink.mqtt.MqttJob;
import io.speck.mqtt.InvalidSettingException;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;

/** The pure parts of the programs; what they do to readings is compared with the PySpark jobs, in Python. */
class ProgramsTest {
    @Test
    void durationsAreReadAsSparkReadsThem() {
        Map<String, Long> durations = Map.of("15 minutes", 900_000_000L, "2 days", 172_800_000_000L, "1 hour", 3_600_000_000L,
                "INTERVAL 1 Day 12 hours", 129_600_000_000L, "2.5 seconds", 2_500_000L, "1 week", 604_800_000_000L,
                "5 milliseconds", 5_000L, "1 month", 31 * 86_400_000_000L, " 7  microseconds ", 7L);
        durations.forEach((text, micros) -> assertEquals(micros, Interval.micros(text), text));
        for (String wrong : List.of("", "15", "minutes", "15 parsecs", "15minutes", "-1 day", "1.5 hours", "1 day,",
                "99999999999999 weeks")) {
            assertThrows(IllegalArgumentException.class, () -> Interval.micros(wrong), wrong);
        }
        for (String wrong : List.of("0 seconds", "1 month", "1 year 2 days")) {
            assertThrows(IllegalArgumentException.class, () -> Interval.window(wrong), wrong);
        }
    }

    @Test
    void aWrongArgumentIsNamed() {
        String[] arguments = {"--job-name", "stats", "--window", "soon"};
        String fault = assertThrows(InvalidSettingException.class, () -> LocalStats.main(arguments)).getMessage();
        assertTrue(fault.contains("argument '--window' is 'soon' (expected a duration such as '15 minutes'"), fault);
    }

    /** Readings of the far future are errors of their messages, which only operators chained to the source may raise. */
    @Test
    void theStatisticsMayLeaveMessagesOut() {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(
                Configuration.fromMap(Map.of("speck.on-error", "skip", "execution.checkpointing.interval", "1 s")));
        MqttJob job = MqttJob.of(environment, new String[] {"--job-name", "stats", "--source-broker", "tcp://127.0.0.1:1",
            "--source-topic", "in", "--sink-broker", "tcp://127.0.0.1:1", "--sink-topic", "out", "--ahead", "2 days"});
        Statistics.write(job, "A");
        job.ready();
    }

    @Test
    void keysAreFieldsCountedFromOne() {
        assertEquals("a,b,c", CountByKey.key("a,b,c", 0));
        assertEquals("a", CountByKey.key("a,b,c", 1));
        assertEquals("c", CountByKey.key("a,b,c", 3));
        assertEquals("", CountByKey.key("a,b,c", 4));
        assertEquals("", CountByKey.key("a,,c", 2));
        assertEquals("", CountByKey.key("", 1));
    }

    @Test
    void messagesAreCountedByKey() throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        DataStream<String> texts = environment.fromData("1,x", "2,y", "3,x", "4,x");
        assertEquals(List.of("x,1", "x,2", "x,3", "y,1"),
                CountByKey.count(texts, 2, 1).executeAndCollect(10).stream().sorted().toList());
    }
}
