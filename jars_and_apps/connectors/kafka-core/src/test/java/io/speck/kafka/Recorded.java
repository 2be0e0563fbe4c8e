package io.speck.kafka;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.reader.BatchRecord;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Records of batches of both kinds of brokers, and a journal of them. */
public final class Recorded {
    /** A stamp that each record has seen, of the one writer that it knows. */
    public static final Stamp SEEN = Stamp.parse("a", "r/0/0/5");

    private Recorded() {}

    /** The settings of a reader of topic "in". */
    public static SourceSettings settings(String broker, String session) {
        return new SourceSettings(Login.anonymous(broker), session, "in", 100, 1 << 20, null, 0, true,
                Duration.ofSeconds(1));
    }

    /** The record of a batch of a Kafka topic. */
    public static byte[] ofKafka(String session, String topicId, long start, long end) {
        return new KafkaBatchRecord(session, "kafka://k:9092", "in", topicId, start, end, 2, Place.at(Map.of(0, start)),
                Place.at(Map.of(0, end)), List.of(), seen(), writers()).encode();
    }

    /** The record of a batch without messages of a session of MQTT. */
    public static byte[] ofMqtt(String session, long start, long end) {
        return new BatchRecord(session, "tcp://h:1883", start, end, 2, List.of(), seen(), writers()).encode();
    }

    private static SeenStamps seen() {
        SeenStamps seen = new SeenStamps(SeenStamps.RECORDED_HASHES);
        seen.add(SEEN, 11);
        return seen;
    }

    private static KnownWriters writers() {
        return KnownWriters.all().updated("{\"writers\": [\"a\"]}".getBytes(StandardCharsets.UTF_8), null);
    }

    /** A journal in memory. */
    public static BatchJournal journal(Map<Long, byte[]> records) {
        MemoryJournal journal = new MemoryJournal();
        journal.records.putAll(records);
        return journal;
    }
}
