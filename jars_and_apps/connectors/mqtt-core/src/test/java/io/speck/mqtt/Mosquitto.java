package io.speck.mqtt;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/** A real Mosquitto of the test's own, on a free loopback port, with its files below a temporary folder. */
public final class Mosquitto implements AutoCloseable {
    private static final List<String> PLACES = List.of("/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto",
            "/opt/homebrew/sbin/mosquitto");

    private static final Path SHIPPED = Path.of("../../../pipelines/mosquitto.conf");

    private final Path folder;
    private final int port;
    private Process process;

    /** Starts Mosquitto, or skips the test if it is not installed. */
    public static Mosquitto start(Path folder, String... settings) throws IOException {
        Mosquitto broker = new Mosquitto(folder, settings);
        broker.start();
        return broker;
    }

    /** Starts Mosquitto with the configuration that SpecK ships, and with settings in place of those of that name. */
    public static Mosquitto shipped(Path folder, String... settings) throws IOException {
        Mosquitto broker = new Mosquitto(folder);
        String text = Files.readString(SHIPPED);
        List<String> own = new ArrayList<>(List.of("listener " + broker.port + " 127.0.0.1",
                "persistence_location " + broker.folder + "/", "user " + System.getProperty("user.name")));
        own.addAll(List.of(settings));
        for (String line : own) {
            String option = line.substring(0, line.indexOf(' '));
            text = text.replaceAll("(?m)^" + option + " .*$", "") + "\n" + line;
        }
        Files.writeString(broker.folder.resolve("mosquitto.conf"), text + "\n");
        broker.start();
        return broker;
    }

    private Mosquitto(Path folder, String... settings) throws IOException {
        this.folder = Files.createDirectories(folder.resolve("mosquitto"));
        this.port = Ports.free();
        // Started by root, Mosquitto changes to a user of its own, which needs to write here.
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        Files.setPosixFilePermissions(this.folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        Files.writeString(this.folder.resolve("mosquitto.conf"), String.join("\n",
                "listener " + port + " 127.0.0.1", "allow_anonymous true", "max_inflight_messages 0",
                "max_queued_messages 0", "persistence true", "persistence_location " + this.folder + "/",
                "log_type error", String.join("\n", settings), ""));
    }

    private static String executable() {
        Stream<String> path = Stream.of(System.getenv("PATH").split(":")).map(each -> each + "/mosquitto");
        String found = Stream.concat(path, PLACES.stream()).filter(each -> Files.isExecutable(Path.of(each)))
                .findFirst().orElse(null);
        Assumptions.assumeTrue(found != null, "there is no mosquitto on this machine");
        return found;
    }

    /** Skips the test if the Mosquitto of this machine is older. */
    public static void assumeVersion(int major, int minor) throws IOException {
        Process asked = new ProcessBuilder(executable(), "-h").redirectErrorStream(true).start();
        String text = new String(asked.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        Matcher found = Pattern.compile("mosquitto version (\\d+)\\.(\\d+)").matcher(text);
        boolean known = found.find();
        int ours = known ? 1000 * Integer.parseInt(found.group(1)) + Integer.parseInt(found.group(2)) : 0;
        Assumptions.assumeTrue(ours >= 1000 * major + minor,
                (known ? found.group() : "this mosquitto") + " is older than " + major + "." + minor);
    }

    /** Returns the path of a plugin that Debian installs with its Mosquitto; skips the test without it, or at another one. */
    public static Path plugin(String name) throws IOException {
        try (Stream<Path> folders = Files.list(Path.of("/usr/lib"))) {
            Path found = folders.map(each -> each.resolve(name)).filter(Files::exists).findFirst().orElse(null);
            Assumptions.assumeTrue(found != null && executable().startsWith("/usr/sbin/"), name + " is not installed");
            return found;
        }
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

    /** Stops it in an orderly way: it saves its sessions. */
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

    /** Makes it save its state to disk now. */
    public void save() throws IOException {
        Path saved = folder.resolve("mosquitto.db");
        Files.deleteIfExists(saved);
        signal("USR1");
        Await.until("mosquitto saved", () -> Files.exists(saved));
    }

    /** Kills it; unsaved state is lost. */
    public void kill() throws IOException {
        signal("KILL");
        Await.until("mosquitto is dead", () -> !process.isAlive());
    }

    /** Makes it read its password file again. */
    public void reload() throws IOException {
        signal("HUP");
    }

    /** Stops it in the middle of its work, with its connections open. */
    public void pause() throws IOException, InterruptedException {
        signal("STOP").waitFor();
    }

    private Process signal(String name) throws IOException {
        return new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start();
    }

    /** Deletes its saved state. */
    public void forget() throws IOException {
        Files.deleteIfExists(folder.resolve("mosquitto.db"));
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
