package io.speck.flink.mqtt;

import io.speck.connector.Brokers;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.Received;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.failure.OnError;
import java.time.Duration;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.util.function.SerializableFunction;

/** Builds a source from its settings; it connects when the job runs. */
public final class FlinkMqttSourceBuilder<T> {
    private static final long MEBIBYTE = 1L << 20;
    private static final int LARGEST_BUFFER = 4096;
    private static final Duration PARKING = Duration.ofMinutes(1);

    private final TypeInformation<T> type;
    private final SerializableFunction<Received, T> format;
    private String broker;
    private String username;
    private String password;
    private String passwordFile;
    private String sasl;
    private TlsFiles tls = TlsFiles.NONE;
    private String topic;
    private String clientId;
    private int receiveMaximum = SourceSettings.LARGEST_RECEIVE_MAXIMUM;
    private long bufferMegabytes = 32;
    private String fenceTopic;
    private long attempt = -1;
    private boolean failOnDataLoss = true;
    private Duration connectTimeout = Duration.ofSeconds(30);
    private OnError onError = OnError.FAIL;
    private String checkpoints;
    private String savepoints;
    private String spool;

    FlinkMqttSourceBuilder(TypeInformation<T> type, SerializableFunction<Received, T> format) {
        this.type = type;
        this.format = format;
    }

    /** The broker's address: {@code tcp://HOST:PORT}, or {@code mqtts://HOST:PORT} with TLS. */
    public FlinkMqttSourceBuilder<T> broker(String address) {
        broker = address;
        return this;
    }

    /** The user name and the password; null for neither. */
    public FlinkMqttSourceBuilder<T> login(String name, String secret) {
        username = name;
        password = secret;
        return this;
    }

    /** Path of a file with the password on the machine of the task, in place of a given one; null for none. */
    public FlinkMqttSourceBuilder<T> passwordFile(String path) {
        passwordFile = path;
        return this;
    }

    /** The mechanism of a login to a broker of Kafka: scram-sha-512, scram-sha-256 or plain; null for the first one. */
    public FlinkMqttSourceBuilder<T> sasl(String mechanism) {
        sasl = mechanism;
        return this;
    }

    /** The certificates to trust, and the client's own, for TLS; the files are on the machine of the task. */
    public FlinkMqttSourceBuilder<T> tls(TlsFiles files) {
        tls = files;
        return this;
    }

    /** The topic, or topic filter, to read. */
    public FlinkMqttSourceBuilder<T> topic(String filter) {
        topic = filter;
        return this;
    }

    /** The name of the persistent session at the broker; one for each job. */
    public FlinkMqttSourceBuilder<T> clientId(String name) {
        clientId = name;
        return this;
    }

    /** Limit of unacknowledged messages, 1 to 65535: no more are read between two checkpoints. */
    public FlinkMqttSourceBuilder<T> receiveMaximum(int messages) {
        receiveMaximum = messages;
        return this;
    }

    /** Memory of buffered messages in MiB, above which reading from the broker pauses. */
    public FlinkMqttSourceBuilder<T> bufferMegabytes(long size) {
        bufferMegabytes = size;
        return this;
    }

    /** Topic of the retained message that names the attempt allowed to read, and the number of this one. */
    public FlinkMqttSourceBuilder<T> fence(String fenceTopic, long attempt) {
        this.fenceTopic = fenceTopic;
        this.attempt = attempt;
        return this;
    }

    /** True to end the job when the broker lost its session, false to log the loss. */
    public FlinkMqttSourceBuilder<T> failOnDataLoss(boolean enabled) {
        failOnDataLoss = enabled;
        return this;
    }

    /** Time limit of the first connection. */
    public FlinkMqttSourceBuilder<T> connectTimeout(Duration limit) {
        connectTimeout = limit;
        return this;
    }

    /** The treatment of messages on which the operators chained to the source fail; by default the job fails. */
    public FlinkMqttSourceBuilder<T> onError(OnError treatment) {
        onError = treatment;
        return this;
    }

    /**
     * The folder of the cluster's checkpoints, if it is on a disk of the task's machine: a message is then acknowledged
     * when no power cut can undo its checkpoint. Null for any other place.
     */
    public FlinkMqttSourceBuilder<T> checkpoints(String folder) {
        checkpoints = folder;
        return this;
    }

    /** The folder of this job's own savepoints, on the same condition. */
    public FlinkMqttSourceBuilder<T> savepoints(String folder) {
        savepoints = folder;
        return this;
    }

    /**
     * A folder on the machine of the task for parked messages that the broker may not have saved yet, so that they
     * survive a power cut of both; null to hold them in memory alone.
     */
    public FlinkMqttSourceBuilder<T> spool(String folder) {
        spool = folder;
        return this;
    }

    /** @throws InvalidSettingException naming every fault */
    public FlinkMqttSource<T> build() {
        Faults faults = new Faults("source");
        Login login = faults.login(new LoginFields(broker, username, password, passwordFile, tls, sasl));
        faults.check("topic", faults.required("topic", topic, "the topic or topic filter to read"),
                Brokers.of(login)::checkFilter);
        faults.check("clientId", faults.required("clientId", clientId, "the name of the persistent session; one a job"),
                SourceSettings::clientId);
        faults.range("receiveMaximum", receiveMaximum, 1, SourceSettings.LARGEST_RECEIVE_MAXIMUM);
        faults.range("bufferMegabytes", bufferMegabytes, 1, LARGEST_BUFFER);
        faults.positive("connectTimeout", connectTimeout);
        if ((fenceTopic == null) != (attempt < 0)) {
            faults.add("a fence needs both its topic and an attempt from 0");
        }
        faults.done();
        return new FlinkMqttSource<>(new SourceSettings(login, clientId, topic, receiveMaximum,
                bufferMegabytes * MEBIBYTE, fenceTopic, attempt, failOnDataLoss, connectTimeout), type, format, onError,
                new SinkSettings(login, PARKING).withSpool(spool), new CheckpointNames(checkpoints, savepoints));
    }
}
