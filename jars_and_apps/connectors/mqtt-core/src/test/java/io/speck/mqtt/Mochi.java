package io.speck.mqtt;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Assumptions;

/** A real mochi-mqtt, as {@code make interop} builds it, on a free loopback port. */
final class Mochi implements AutoCloseable {
    private static final Path PROGRAM = Path.of("../../../build/interop/mochi");

    private final int port = Ports.free();
    private final Process process;

    /** Starts mochi-mqtt, or skips the test if it is not built. */
    Mochi() throws IOException {
        Assumptions.assumeTrue(Files.isExecutable(PROGRAM), "mochi-mqtt is not built (make interop, which needs Go)");
        process = new ProcessBuilder(PROGRAM.toString(), Integer.toString(port))
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Await.until("mochi-mqtt listens", this::listens);
    }

    private boolean listens() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 200);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    int port() {
        return port;
    }

    String url() {
        return "tcp://127.0.0.1:" + port;
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
