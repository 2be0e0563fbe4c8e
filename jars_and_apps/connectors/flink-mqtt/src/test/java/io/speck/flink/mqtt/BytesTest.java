package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Received;
import io.speck.mqtt.Spooled;
import io.speck.mqtt.Topic;
import io.speck.mqtt.failure.LeftOut;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Contents that are not text: passed on unchanged by programs that do not read them, and an error of those that do. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BytesTest extends ClusterCase {
    /** Two texts, one of them empty; NUL with 0xFF; a sequence that is cut off; a half of a surrogate pair. */
    private static final List<String> CONTENTS = List.of("6f6b", "", "00ff", "4fe282", "eda080");
    private Topic out;

    @BeforeEach
    void start() throws Exception {
        out = new Topic(broker.url(), "out");
        Topic.session(broker.url(), "speck-job", "in");
    }

    @AfterEach
    void stop() {
        out.close();
    }

    private JobID run(Consumer<MqttJob> program, Map<String, String> settings) throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        environment.configure(Configuration.fromMap(Map.of("restart-strategy.type", "none")));
        environment.configure(Configuration.fromMap(settings));
        MqttJob job = MqttJob.of(environment, new String[] {"--job-name", "job", "--source-broker", broker.url(),
            "--source-topic", "in", "--sink-broker", broker.url(), "--sink-topic", "out"});
        program.accept(job);
        job.ready();
        JobID started = cluster.run(environment);
        Topic.publishHex(broker.url(), "in", CONTENTS);
        return started;
    }

    /** Settings to park, with a spool. The sink's login is another one, so that the parking writer is not the sink's. */
    private Map<String, String> parking() {
        return Map.of("speck.on-error", "park", "speck.park-topic", "parked", "speck.sink.username", "writer",
                "speck.spool", folder.resolve("spool").toString());
    }

    private void passes(Consumer<MqttJob> program) throws Exception {
        JobID job = run(program, Map.of());
        assertEquals(CONTENTS, out.takeHex(CONTENTS.size()));
        cluster.cancel(job);
    }

    @Test
    void textsThatAreWrittenAsTheyArePassUnchanged() throws Exception {
        passes(job -> job.write(job.texts()));
    }

    @Test
    void bytesPassUnchanged() throws Exception {
        passes(job -> job.writeBytes(job.bytes().filter(content -> content.length < 100)));
    }

    @Test
    void contentsOfWholeMessagesPassUnchanged() throws Exception {
        passes(job -> job.writeBytes(job.messages().map(Received::payload)
                .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)));
    }

    @Test
    void contentsOfRowsPassUnchanged() throws Exception {
        passes(job -> job.writeBytes(job.rows().map(row -> (byte[]) row.getField("value"))
                .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)));
    }

    @Test
    void otherContentsAreParkedUnchangedWhereTextsAreRead() throws Exception {
        try (Topic parked = new Topic(broker.url(), "parked")) {
            JobID job = run(each -> each.write(each.texts().map(text -> text + "!")), parking());
            assertEquals(List.of("6f6b21", "21"), out.takeHex(2));
            assertEquals(CONTENTS.subList(2, 5), parked.takeHex(3));
            Spooled.await(folder.resolve("spool"), LeftOut.TOPIC);
            cluster.cancel(job);
            assertEquals(2, out.all().size());
        }
    }

    @Test
    void theMessageIsNamedByTheError() throws Exception {
        JobID job = run(each -> each.write(each.texts().filter(text -> true)), Map.of());
        String failure = cluster.failure(job);
        assertTrue(failure.contains("on message 2 of topic 'in': InvalidTextException: byte 0xFF at position 1 of 2"), failure);
    }

    @Test
    void aTextWithoutAFormInUtf8IsAnErrorOfItsMessage() throws Exception {
        try (Topic parked = new Topic(broker.url(), "parked")) {
            JobID job = run(each -> each.write(each.bytes().map(content -> content.length == 0 ? "\uD800" : "ok")),
                    Map.of("speck.on-error", "park", "speck.park-topic", "parked"));
            assertEquals(List.of("6f6b", "6f6b", "6f6b", "6f6b"), out.takeHex(4));
            assertEquals(List.of(""), parked.takeHex(1));
            cluster.cancel(job);
        }
    }

    @Test
    void textsThatAreReadBesideAreTexts() throws Exception {
        JobID job = run(each -> {
            var texts = each.texts();
            texts.print();
            each.write(texts);
        }, Map.of("speck.on-error", "skip"));
        assertEquals(new TreeSet<>(List.of("6f6b", "")), new TreeSet<>(out.takeHex(2)));
        cluster.cancel(job);
    }

    @Test
    void aUseAfterTheirWritingIsRefused() {
        InvalidSettingException refused = assertThrows(InvalidSettingException.class, () -> run(each -> {
            var texts = each.texts();
            each.write(texts);
            texts.print();
        }, Map.of()));
        assertTrue(refused.getMessage().contains("expected write as the last use of it"), refused.getMessage());
    }
}
