package io.speck.flink.mqtt;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TlsFiles;
import java.time.Duration;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.util.function.SerializableFunction;

/** Gathers the settings of a source; nothing is connected before the job runs. */
public final class FlinkMqttSourceBuilder<T> {
    private static final long MEBIBYTE = 1L << 20;
    private static final int LARGEST_BUFFER = 4096;

    private final TypeInformation<T> type;
    private final SerializableFunction<Received, T> format;
    private String broker;
    private String username;
    private String password;
    private String passwordFile;
    private TlsFiles tls = TlsFiles.NONE;
    private String topic;
    private String clientId;
    private int receiveMaximum = SourceSettings.LARGEST_RECEIVE_MAXIMUM;
    private long bufferMegabytes = 32;
    private String fenceTopic;
    private long attempt = -1;
    private boolean failOnDataLoss = true;
    private Duration connectTimeout = Duration.ofSeconds(30);

    FlinkMqttSourceBuilder(TypeInformation<T> type, SerializableFunction<Received, T> format) {
        this.type = type;
        this.format = format;
    }

    /** The broker's address: {@code tcp://HOST:PORT}, or {@code mqtts://HOST:PORT} with TLS. */
    public FlinkMqttSourceBuilder<T> broker(String address) {
        broker = address;
        return this;
    }

    /** How to log in there; null for neither. */
    public FlinkMqttSourceBuilder<T> login(String name, String secret) {
        username = name;
        password = secret;
        return this;
    }

    /** Path, on the machine where the task runs, of a file with the password, in place of one given; null for none. */
    public FlinkMqttSourceBuilder<T> passwordFile(String path) {
        passwordFile = path;
        return this;
    }

    /** Whom to trust, and who we are, with TLS; the files are on the machine where the task runs. */
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

    /** How many unacknowledged messages may be under way, 1 to 65535: no more are read between two checkpoints. */
    public FlinkMqttSourceBuilder<T> receiveMaximum(int messages) {
        receiveMaximum = messages;
        return this;
    }

    /** Memory for messages in hand, in MiB, before reading from the broker pauses. */
    public FlinkMqttSourceBuilder<T> bufferMegabytes(long size) {
        bufferMegabytes = size;
        return this;
    }

    /** Topic of the retained message that names the attempt that may read, and the number of this one. */
    public FlinkMqttSourceBuilder<T> fence(String fenceTopic, long attempt) {
        this.fenceTopic = fenceTopic;
        this.attempt = attempt;
        return this;
    }

    /** Whether a session that the broker has lost ends the job, or is only logged. */
    public FlinkMqttSourceBuilder<T> failOnDataLoss(boolean wanted) {
        failOnDataLoss = wanted;
        return this;
    }

    /** How long the first connection may take. */
    public FlinkMqttSourceBuilder<T> connectTimeout(Duration limit) {
        connectTimeout = limit;
        return this;
    }

    /** @throws InvalidSettingException naming every fault */
    public FlinkMqttSource<T> build() {
        Faults faults = new Faults("source");
        Login login = faults.login(new LoginFields(broker, username, password, passwordFile, tls));
        faults.check("topic", faults.required("topic", topic, "the topic or topic filter to read"),
                SourceSettings::filter);
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
                bufferMegabytes * MEBIBYTE, fenceTopic, attempt, failOnDataLoss, connectTimeout), type, format);
    }
}
