package io.speck.kafka;

import io.speck.connector.reader.Message;
import io.speck.mqtt.Utf8;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.stamp.StampReader;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * Decodes records to messages.
 *
 * <p>A record without a stamp has an identity by its place in the topic, if that has several partitions: these come in
 * another order when they are read again, so that its position among all messages does not name it. In a topic that gets
 * further partitions it has one from then on; batches keep the names of their messages ({@link KafkaBatchRecord.Run}).
 */
final class RecordDecoder {
    /** The header with the name of the writing job. */
    static final String JOB = Stamp.JOB;
    /** The header with the rest of the stamp. */
    static final String SEQUENCE = Stamp.SEQUENCE;

    private static final byte[] NOTHING = new byte[0];

    /** Ends the name of the session of a replay: a job reads again what it has read. */
    private static final Pattern REPLAY = Pattern.compile(".*:r\\d+");

    /** The job of the identities by place; no job has such a name. */
    static final String NO_JOB = ":kafka";

    private final String replay;
    /** The run of the identities by place; null for none. */
    private String places;
    private final StampReader stamps = new StampReader();
    private String lastTopic = "";
    private byte[] lastTopicBytes = NOTHING;
    private String lastRun = "";
    private String lastRunAgain;
    private long timesMadeAnew;

    /** Creates a decoder for the reader of a session. */
    RecordDecoder(String session, TopicWatch.Topic topic) {
        this.replay = REPLAY.matcher(session).matches() ? session : null;
        this.places = places(topic);
    }

    private String places(TopicWatch.Topic topic) {
        String run = topic.partitions() > 1 ? topic.id() : null;
        return run == null || replay == null ? run : new Stamp(NO_JOB, run, 0, 0, 0).readAgain(replay).run();
    }

    /**
     * Decodes the records of another topic of the same name from now on.
     *
     * @return how often this has happened
     */
    long topicMadeAnew(TopicWatch.Topic topic) {
        places = places(topic);
        return ++timesMadeAnew;
    }

    /** Decodes the records of the same topic with further partitions from now on. */
    void partitionsAdded(TopicWatch.Topic topic) {
        places = places(topic);
    }

    /** A null content reads as an empty one; headers that are no text are no stamp. */
    KafkaMessage decode(ConsumerRecord<byte[], byte[]> record) {
        if (!record.topic().equals(lastTopic)) {
            lastTopic = record.topic();
            lastTopicBytes = lastTopic.getBytes(StandardCharsets.UTF_8);
        }
        byte[] payload = record.value() == null ? NOTHING : record.value();
        Header jobHeader = record.headers().lastHeader(JOB);
        Header sequenceHeader = record.headers().lastHeader(SEQUENCE);
        byte[] job = text(jobHeader);
        byte[] sequence = text(sequenceHeader);
        long epoch = Epochs.of(record.leaderEpoch(), timesMadeAnew);
        int hash = Message.hash(lastTopicBytes, payload, job, sequence);
        KafkaMessage message = new KafkaMessage(record.partition(), epoch, record.offset(), hash, lastTopic, payload,
                record.timestamp(), stamps.read(job, sequence));
        message.key = record.key() == null ? null : new String(record.key(), StandardCharsets.UTF_8);
        message.badStamp = message.stamp == null && (jobHeader != null || sequenceHeader != null);
        message.places = places;
        if (replay != null && message.stamp != null) {
            message.readAgainAs(again(message.stamp));
        }
        message.textBytes = bytes(message.key) + (message.stamp == null ? 0 : 2 * (job.length + sequence.length));
        return message;
    }

    private Stamp again(Stamp stamp) {
        if (lastRunAgain == null || !stamp.run().equals(lastRun)) {
            lastRun = stamp.run();
            lastRunAgain = stamp.readAgain(replay).run();
        }
        return new Stamp(stamp.job(), lastRunAgain, stamp.partition(), stamp.epoch(), stamp.index(), stamp.path(),
                stamp.fingerprint());
    }

    /** Adds a stamp to the headers of a record. */
    static void stamp(Headers headers, byte[] job, byte[] sequence) {
        headers.add(JOB, job);
        headers.add(SEQUENCE, sequence);
    }

    /** Returns the value of a header; null for none, and for one that is no text. */
    private static byte[] text(Header header) {
        byte[] value = header == null ? null : header.value();
        return value == null || Utf8.fault(value) != null ? null : value;
    }

    /** The memory of a text, which may need two bytes for each character. */
    private static int bytes(String text) {
        return text == null ? 0 : 2 * text.length();
    }
}
