package io.speck.mqtt.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.Mosquitto;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Names of brokers, also where nobody answers who knows them. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class HostNamesTest {
    @TempDir
    Path folder;

    /** A site that is cut off: its jobs write to its own broker, and try to reach others by name. */
    @Test
    void aNameServerThatDoesNotAnswerHoldsUpNoOtherConnection() throws Exception {
        Path hosts = folder.resolve("hosts"); // read instead of a name server; a pipe without a writer
        assertEquals(0, new ProcessBuilder("mkfifo", hosts.toString()).start().waitFor());
        try (Mosquitto broker = Mosquitto.start(folder)) {
            Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-Djdk.net.hosts.file=" + hosts, "-cp", System.getProperty("java.class.path"),
                    HostNamesProcess.class.getName(), broker.url()).redirectErrorStream(true).start();
            try {
                List<String> lines = process.inputReader().lines().toList();
                assertTrue(lines.contains(HostNamesProcess.ANSWERS), lines::toString);
                assertEquals(4, lines.stream().filter(each -> each.contains(HostNamesProcess.IN_TIME)).count(),
                        lines::toString);
            } finally {
                process.destroyForcibly().waitFor(20, TimeUnit.SECONDS);
            }
        }
    }

    @Test
    void aNameThatIsNotKnownIsNamed() {
        BrokerException error = assertThrows(BrokerException.class, () -> Connection.open(
                Login.anonymous("tcp://no-such-broker.invalid:1883"), Session.temporary("name"),
                new ConnectionListener() {}, Duration.ofSeconds(60)));
        assertTrue(error.getMessage().contains("its host name is not known here"), error::getMessage);
    }

    @Test
    void aKnownNameIsReached() throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder)) {
            Connection.open(Login.anonymous("tcp://localhost:" + broker.port()), Session.temporary("name"),
                    new ConnectionListener() {}, Duration.ofSeconds(20)).closeAndEndSession();
        }
    }
}
