package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.Password;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TlsFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Reads from a Mosquitto whose password is changed while the connection is cut. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RefusedReaderTest {
    private static final String LIMIT = "speck.source.refusedSeconds";

    @TempDir
    Path folder;
    private Mosquitto broker;
    private CuttingProxy proxy;
    private Path ownPassword;

    @BeforeEach
    void start() throws Exception {
        setBrokersPassword("first");
        broker = Mosquitto.start(folder, "allow_anonymous false", "password_file " + folder.resolve("passwords"));
        proxy = new CuttingProxy(broker.port());
        ownPassword = Files.writeString(folder.resolve("own"), "first");
    }

    @AfterEach
    void stop() throws Exception {
        System.clearProperty(LIMIT);
        proxy.close();
        broker.close();
    }

    private void setBrokersPassword(String password) throws IOException, InterruptedException {
        Path file = folder.resolve("passwords");
        Process made = new ProcessBuilder("mosquitto_passwd", "-b", "-c", file.toString(), "reader", password)
                .redirectErrorStream(true).start();
        assertEquals(0, made.waitFor());
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
    }

    private MqttSource open() throws Exception {
        Login login = new Login(BrokerAddress.parse(proxy.url()), "reader", Password.in(ownPassword.toString()),
                TlsFiles.NONE);
        MqttSource source = new MqttSource(new SourceSettings(login, "reader", "in/#", 65535, 32 << 20, null, -1, true,
                Duration.ofSeconds(20)), new MemoryJournal());
        source.open(0, 0);
        return source;
    }

    private void changeBrokersPassword(String password) throws Exception {
        setBrokersPassword(password);
        broker.reload();
        proxy.cut();
    }

    @Test
    void aReaderThatIsRefusedForTooLongEnds() throws Exception {
        System.setProperty(LIMIT, "1");
        try (MqttSource source = open()) {
            changeBrokersPassword("second");
            BrokerException ended = assertThrows(BrokerException.class,
                    () -> source.await(1, TimeUnit.SECONDS.toNanos(60)));
            assertTrue(ended.refused());
            assertTrue(ended.getMessage().contains("is refused since 1 s"), ended.getMessage());
            assertTrue(ended.getMessage().contains("refuses client 'reader'"), ended.getMessage());
        }
    }

    @Test
    void aReaderThatIsAdmittedInTimeGoesOn() throws Exception {
        try (MqttSource source = open()) {
            changeBrokersPassword("second");
            Await.until("the reader is without a connection", () -> !source.metrics().connected());
            Files.writeString(ownPassword, "second");
            Await.until("the reader is connected again", () -> source.metrics().connected());
        }
    }
}
