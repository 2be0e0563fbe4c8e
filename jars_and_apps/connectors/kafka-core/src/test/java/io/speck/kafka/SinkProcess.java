package io.speck.kafka;

import io.speck.connector.Brokers;
import io.speck.connector.MessageSink;
import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** A process that writes to a topic until it is killed; the tests of the Kafka binder start it. */
public final class SinkProcess {
    private SinkProcess() {}

    public static void main(String[] arguments) throws Exception {
        Login login = Login.anonymous(arguments[0]);
        byte[] job = "job".getBytes(StandardCharsets.UTF_8);
        try (MessageSink sink = Brokers.of(login).sink(new SinkSettings(login, Duration.ofMinutes(5)), false)) {
            for (int number = 0;; number++) {
                byte[] text = ("run/0/0/" + number).getBytes(StandardCharsets.UTF_8);
                sink.send(arguments[1], text, text, job, text);
                Thread.sleep(50);
            }
        }
    }
}
