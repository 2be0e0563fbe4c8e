package io.speck.mqtt;

import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Assumptions;

/** A real Mosquitto of the test's own, on a free loopback port, with its files below a temporary folder. */
public final class Mosquitto implements AutoCloseable {
    private static final List<String> PLACES = List.of("/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto",
            "/opt/homebrew/sbin/mosquitto");

    private final Path folder;
    private final int port;
    private Process process;

    /** Starts one, or skips the test where there is none. */
    public static Mosquitto start(Path folder, String... settings) throws IOException {
        Mosquitto broker = new Mosquitto(folder, settings);
        broker.start();
        return broker;
    }

    private Mosquitto(Path folder, String... settings) throws IOException {
        this.folder = Files.createDirectories(folder.resolve("mosquitto"));
        this.port = freePort();
        // As root, Mosquitto becomes a user of its own, who must be able to write here.
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        Files.setPosixFilePermissions(this.folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        Files.writeString(this.folder.resolve("mosquitto.conf"), String.join("\n",
                "listener " + port + " 127.0.0.1", "allow_anonymous true", "max_inflight_messages 0",
                "max_queued_messages 0", "persistence true", "persistence_location " + this.folder + "/",
                "log_type error", String.join("\n", settings), ""));
    }

    public static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static String executable() {
        Stream<String> path = Stream.of(System.getenv("PATH").split(":")).map(each -> each + "/mosquitto");
        String found = Stream.concat(path, PLACES.stream()).filter(each -> Files.isExecutable(Path.of(each)))
                .findFirst().orElse(null);
        Assumptions.assumeTrue(found != null, "there is no mosquitto on this machine");
        return found;
    }

    public void start() throws IOException {
        process = new ProcessBuilder(executable(), "-c", folder.resolve("mosquitto.conf").toString())
                .redirectErrorStream(true).redirectOutput(folder.resolve("log").toFile()).start();
        Await.until("mosquitto listens", this::listens);
    }

    private boolean listens() {
        if (!process.isAlive()) {
            throw new IllegalStateException("mosquitto ended: " + log());
        }
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 200);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    private String log() {
        try {
            return Files.readString(folder.resolve("log"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Ends it in an orderly way: it saves its sessions. */
    public void stop() {
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Leaves a retained message at a topic (MQTT 3.1.1, sections 3.1 to 3.4), as a coordinator leaves a fence; topic
     * and payload together below 120 bytes.
     */
    public void retain(String topic, String payload) throws IOException {
        byte[] name = topic.getBytes(StandardCharsets.UTF_8);
        byte[] content = payload.getBytes(StandardCharsets.UTF_8);
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(10_000);
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.write(new byte[] {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 10, 0, 0});
            byte[] connected = socket.getInputStream().readNBytes(4);
            out.write(new byte[] {0x33, (byte) (2 + name.length + 2 + content.length)});
            out.writeShort(name.length);
            out.write(name);
            out.writeShort(1);
            out.write(content);
            byte[] acknowledged = socket.getInputStream().readNBytes(4);
            out.write(new byte[] {(byte) 0xe0, 0});
            Assertions.assertArrayEquals(new byte[] {0x20, 2, 0, 0}, connected);
            Assertions.assertArrayEquals(new byte[] {0x40, 2, 0, 1}, acknowledged);
        }
    }

    public int port() {
        return port;
    }

    public String url() {
        return "tcp://127.0.0.1:" + port;
    }

    @Override
    public void close() {
        stop();
    }
}
