package io.speck.mqtt.reader;

import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.SourceSettings;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** A process of its own that reads a session until it has a number of messages, and prints them. */
public final class ReaderProcess {
    /** The line that is printed once it reads. */
    public static final String READS = "reads";

    private ReaderProcess() {}

    /** Takes the broker, the session, its filter, and the number of messages. */
    public static void main(String[] arguments) throws Exception {
        String session = arguments[1];
        long count = Long.parseLong(arguments[3]);
        SourceSettings settings = new SourceSettings(Login.anonymous(arguments[0]), session, arguments[2], 65535, 32 << 20,
                "speck/fence/" + session, 1, false, Duration.ofSeconds(30));
        try (MqttSource source = new MqttSource(settings, new MemoryJournal())) {
            source.open(0, 0);
            System.out.println(READS);
            while (source.await(count, TimeUnit.SECONDS.toNanos(1)) < count) {
                Thread.onSpinWait();
            }
            Thread.sleep(500); // for messages that come once too often
            source.messages(0, Long.MAX_VALUE).forEach(each -> System.out.println(
                    new String(each.payload(), StandardCharsets.UTF_8) + " " + each.stamp().sequence()));
        }
    }
}
