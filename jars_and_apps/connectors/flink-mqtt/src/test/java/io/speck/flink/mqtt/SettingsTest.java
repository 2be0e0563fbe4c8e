package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.Stamp;
import java.time.Duration;
import java.util.HashSet;
import java.time.ZoneId;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Checks settings, arguments and the forms of state, without a broker. */
class SettingsTest {
    private static String fault(Executable work) {
        return assertThrows(InvalidSettingException.class, work).getMessage();
    }

    @Test
    void allFaultsOfASourceAreReportedAtOnce() {
        String fault = fault(() -> FlinkMqttSource.texts().broker("tcp:/x").topic("a/#/b").receiveMaximum(0)
                .bufferMegabytes(0).fence("f", -1).login(null, "secret").connectTimeout(Duration.ZERO).build());
        for (String part : List.of("'tcp:/x' is not a broker address", "'a/#/b' is not a topic filter",
                "'clientId' is missing", "'receiveMaximum' is 0 (expected 1 to 65535)", "'bufferMegabytes' is 0",
                "a fence needs both", "a password without a username", "'connectTimeout' is PT0S")) {
            assertTrue(fault.contains(part), part + " in " + fault);
        }
        assertFalse(fault.contains("secret"), fault);
    }

    @Test
    void allFaultsOfASinkAreReportedAtOnce() {
        String fault = fault(() -> FlinkMqttSink.texts().topic("a/#").incarnation("no/slash").origin("ABC")
                .flushTimeout(Duration.ofSeconds(-1)).build());
        for (String part : List.of("'broker' is missing", "'a/#' is not a topic that can be written to",
                "'no/slash' is not an incarnation", "'ABC' is not the id of a job", "'flushTimeout' is PT-1S")) {
            assertTrue(fault.contains(part), part + " in " + fault);
        }
        assertTrue(fault(() -> FlinkMqttSink.texts().broker("tcp://b").build()).contains("'topic' is missing"));
    }

    @Test
    void argumentsArePairs() {
        assertTrue(fault(() -> MqttJob.of(new String[] {"job-name", "x"})).contains("(expected --NAME VALUE)"));
        assertTrue(fault(() -> MqttJob.of(new String[] {"--job-name"})).contains("has no value"));
        assertTrue(fault(() -> MqttJob.of(new String[] {"--a", "1", "--a", "2"})).contains("given twice"));
        assertTrue(fault(() -> MqttJob.of(new String[] {})).contains("'--job-name' is missing"));
        MqttJob job = MqttJob.of(new String[] {"--job-name", "x", "--low", "--5", "--count", "7"});
        assertEquals("--5", job.argument("low", ""));
        assertEquals(7, job.number("count", 0, 0, 10));
        assertTrue(fault(() -> job.number("count", 0, 8, 9)).contains("is '7' (expected a whole number from 8 to 9)"));
    }

    @Test
    void anUnreadArgumentIsAnError() {
        MqttJob job = MqttJob.of(new String[] {"--job-name", "x", "--sitee", "A"});
        job.argument("site", "");
        assertTrue(fault(job::execute).contains("unknown argument '--sitee' (did you mean 'site'?)"));
    }

    @Test
    void aJobWithoutCheckpointsIsRefused() {
        assertTrue(fault(MqttJob.of(new String[] {"--job-name", "x"})::execute).contains("checkpoints are off"));
    }

    @Test
    void aMessageCannotBeLeftOutByOperatorsAfterAKeyBy() {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "3 s");
        settings.setString("speck.on-error", "skip");
        String[] arguments = {"--job-name", "x", "--source-broker", "tcp://b", "--source-topic", "in",
            "--sink-broker", "tcp://b", "--sink-topic", "out"};
        MqttJob chained = MqttJob.of(StreamExecutionEnvironment.getExecutionEnvironment(settings), arguments);
        chained.write(chained.texts().map(text -> text + "!"));
        chained.ready();
        MqttJob keyed = MqttJob.of(StreamExecutionEnvironment.getExecutionEnvironment(settings), arguments);
        keyed.write(keyed.texts().keyBy(text -> text).map(text -> text + "!"));
        assertTrue(fault(keyed::ready).contains("hold for operators chained to the source"), fault(keyed::ready));
    }

    @Test
    void theTimeZoneIsThatOfTables() {
        Configuration settings = new Configuration();
        settings.setString("table.local-time-zone", "Asia/Tokyo");
        StreamExecutionEnvironment given = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        assertEquals("Asia/Tokyo", MqttJob.of(given, new String[] {"--job-name", "x"}).timezone().getId());
        assertEquals(ZoneId.systemDefault(), MqttJob.of(new String[] {"--job-name", "x"}).timezone());
    }

    @Test
    void storedStatesAreReadBack() throws Exception {
        byte[] split = HexFormat.of().parseHex("000000000000000c00000002000000000000000400000000000000000000000a00000003010203");
        MqttSplit read = new MqttSplitSerializer().deserialize(1, split);
        assertEquals(12, read.position());
        assertEquals(MqttSplit.NO_END, read.waitEnd());
        assertEquals(List.of(4L, 10L), List.copyOf(read.records().keySet()));
        assertArrayEquals(new byte[] {1, 2, 3}, read.records().get(10L));
        byte[] lineage = HexFormat.of().parseHex("000372756e0000000100000002000000000000002a");
        assertEquals(new Lineage("run", 1, 2, 42), new Lineage.Serializer().deserialize(1, lineage));
    }

    @Test
    void statesComeBackAsTheyWere() throws Exception {
        TreeMap<Long, byte[]> records = new TreeMap<>();
        records.put(3L, new byte[] {1, 2, 3});
        records.put(9L, new byte[] {});
        MqttSplit split = new MqttSplit(12, 15, records);
        MqttSplitSerializer splits = new MqttSplitSerializer();
        assertEquals(split, splits.deserialize(splits.getVersion(), splits.serialize(split)));
        Lineage lineage = new Lineage("run", 1, 2, 1L << 40);
        Lineage.Serializer lineages = new Lineage.Serializer();
        assertEquals(lineage, lineages.deserialize(lineages.getVersion(), lineages.serialize(lineage)));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void runNamesDifferBetweenStarts(boolean compact) {
        JobID job = new JobID(1, 2);
        String name = Lineage.name(job, 1, 5, compact);
        assertEquals(name, Lineage.name(new JobID(1, 2), 1, 5, compact));
        Set<String> names = new HashSet<>();
        for (long near = 0; near < 1000; near++) {
            names.add(Lineage.name(new JobID(1, near), 1, 0, compact));
            names.add(Lineage.name(new JobID(near + 2, 1), 1, 0, compact));
        }
        assertEquals(2000, names.size());
        assertNotEquals(name, Lineage.name(job, 2, 5, compact));
        assertNotEquals(name, Lineage.name(job, 1, 6, compact));
    }

    /** A job that restarts before its first checkpoint names its run anew, whatever connector it had before. */
    @Test
    void runNamesStayTheSameBetweenVersions() {
        assertEquals("huapwvjj0m22", Lineage.name(new JobID(1, 2), 1, 5, false));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aRunOfTheBinaryFormIsShort(boolean compact) {
        String sequence = Stamp.prefix(Lineage.name(new JobID(1, 2), 1, 0, compact), 0, 0) + "1000000.0~0012abef";
        assertEquals(compact ? 15 : 19, new CompactForm().encode(Stamp.parse("clean", sequence)).length);
    }
}
