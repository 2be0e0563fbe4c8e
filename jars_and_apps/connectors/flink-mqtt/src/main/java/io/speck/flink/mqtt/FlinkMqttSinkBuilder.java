package io.speck.flink.mqtt;

import io.speck.connector.Brokers;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.failure.OnError;
import io.speck.mqtt.failure.OnErrorSink;
import java.time.Duration;
import java.util.regex.Pattern;
import org.apache.flink.api.common.JobID;
import org.apache.flink.util.function.SerializableFunction;

/** Builds a sink from its settings; it connects when the job runs. */
public final class FlinkMqttSinkBuilder<T> {
    private static final Pattern JOB_ID = Pattern.compile("[0-9a-f]{32}");

    private final SerializableFunction<T, byte[]> format;
    private String broker;
    private String username;
    private String password;
    private String passwordFile;
    private String sasl;
    private TlsFiles tls = TlsFiles.NONE;
    private String topic;
    private SerializableFunction<T, String> topicOf;
    private SerializableFunction<T, String> key;
    private Sequence<T> sequence;
    private String job;
    private String incarnation;
    private String origin;
    private long incarnationNumber;
    private long originNumber;
    private Duration flushTimeout = Duration.ofSeconds(60);
    private OnError onError = OnError.FAIL;
    private LoginFields parking;
    private String spool;
    private boolean retain;

    FlinkMqttSinkBuilder(SerializableFunction<T, byte[]> format) {
        this.format = format;
    }

    /** The broker's address: {@code tcp://HOST:PORT}, or {@code mqtts://HOST:PORT} with TLS. */
    public FlinkMqttSinkBuilder<T> broker(String address) {
        broker = address;
        return this;
    }

    /** The user name and the password; null for neither. */
    public FlinkMqttSinkBuilder<T> login(String name, String secret) {
        username = name;
        password = secret;
        return this;
    }

    /** Path of a file with the password on the machine of the task, in place of a given one; null for none. */
    public FlinkMqttSinkBuilder<T> passwordFile(String path) {
        passwordFile = path;
        return this;
    }

    /** The mechanism of a login to a broker of Kafka: scram-sha-512, scram-sha-256 or plain; null for the first one. */
    public FlinkMqttSinkBuilder<T> sasl(String mechanism) {
        sasl = mechanism;
        return this;
    }

    /** The certificates to trust, and the client's own, for TLS; the files are on the machine of the task. */
    public FlinkMqttSinkBuilder<T> tls(TlsFiles files) {
        tls = files;
        return this;
    }

    /** The topic of all messages. */
    public FlinkMqttSinkBuilder<T> topic(String name) {
        topic = name;
        return this;
    }

    /** The topic of each message. */
    public FlinkMqttSinkBuilder<T> topicOf(SerializableFunction<T, String> chooser) {
        topicOf = chooser;
        return this;
    }

    /** The key of each message, sent as its user property {@code key}. */
    public FlinkMqttSinkBuilder<T> key(SerializableFunction<T, String> chooser) {
        key = chooser;
        return this;
    }

    /** The name of the job in the stamps; null or empty for messages without stamps. */
    public FlinkMqttSinkBuilder<T> job(String name) {
        job = name == null || name.isEmpty() ? null : name;
        return this;
    }

    /** The lineage in the stamps, in place of the default: of job id, parallelism and restored checkpoint. */
    public FlinkMqttSinkBuilder<T> incarnation(String name) {
        incarnation = name;
        return this;
    }

    /**
     * The id (32 hexadecimal digits) of a job that ended before its first checkpoint, and whose work this one repeats
     * from its beginning, with the same stamps. Null for none.
     */
    public FlinkMqttSinkBuilder<T> origin(String job) {
        origin = job;
        return this;
    }

    /** The number of the lineage's present form, in counted stamps: with another one the count begins anew. */
    public FlinkMqttSinkBuilder<T> incarnationNumber(long number) {
        incarnationNumber = number;
        return this;
    }

    /** The number of the present count of input positions, in the stamps of what comes from messages without one. */
    public FlinkMqttSinkBuilder<T> originNumber(long number) {
        originNumber = number;
        return this;
    }

    /** The number of each message in the stamps, in place of a count. */
    public FlinkMqttSinkBuilder<T> sequence(Sequence<T> numbers) {
        sequence = numbers;
        return this;
    }

    /** Time limit for the broker to acknowledge the messages written before a checkpoint. */
    public FlinkMqttSinkBuilder<T> flushTimeout(Duration limit) {
        flushTimeout = limit;
        return this;
    }

    /** True to have the broker retain the last message of each topic, for readers that subscribe later. */
    public FlinkMqttSinkBuilder<T> retain(boolean enabled) {
        retain = enabled;
        return this;
    }

    /**
     * The treatment of messages that the broker does not accept; by default the job fails.
     *
     * @param parkingBroker address and login of the broker of the topic for parked messages; null unless they are parked
     */
    public FlinkMqttSinkBuilder<T> onError(OnError treatment, LoginFields parkingBroker) {
        onError = treatment;
        parking = parkingBroker;
        return this;
    }

    /**
     * A folder on the machine of the task for messages that the broker may not have saved yet, so that they survive a
     * power cut of both; null to hold them in memory alone.
     */
    public FlinkMqttSinkBuilder<T> spool(String folder) {
        spool = folder;
        return this;
    }

    /** @throws InvalidSettingException naming every fault */
    public FlinkMqttSink<T> build() {
        Faults faults = new Faults("sink");
        Login login = faults.login(new LoginFields(broker, username, password, passwordFile, tls, sasl));
        if (topicOf == null) {
            faults.required("topic", topic, "the topic of the messages");
        }
        faults.check("topic", topic, Brokers.of(login)::checkTopic);
        faults.check("job", job, SinkSettings::job);
        faults.check("incarnation", incarnation, SinkSettings::incarnation);
        faults.check("origin", origin, FlinkMqttSinkBuilder::jobId);
        faults.positive("flushTimeout", flushTimeout);
        faults.range("incarnationNumber", incarnationNumber, 0, Long.MAX_VALUE);
        faults.range("originNumber", originNumber, 0, Long.MAX_VALUE);
        Login parkingLogin = onError.parkTopic() == null ? null : faults.login(parking);
        faults.done();
        String everywhere = topic;
        SinkFormat<T> whole = new SinkFormat<>(format, topicOf == null ? element -> everywhere : topicOf, key, sequence);
        JobID beginning = origin == null ? null : JobID.fromHexString(origin);
        SinkSettings settings = new SinkSettings(login, flushTimeout, retain).withSpool(spool);
        return new FlinkMqttSink<>(new OnErrorSink.Settings(settings, onError, parkingLogin), whole, job,
                new LineageSettings(incarnation, beginning, incarnationNumber, originNumber));
    }

    private static String jobId(String text) {
        if (!JOB_ID.matcher(text).matches()) {
            throw new InvalidSettingException("'" + text + "' is not the id of a job (expected 32 hexadecimal digits)");
        }
        return text;
    }
}
