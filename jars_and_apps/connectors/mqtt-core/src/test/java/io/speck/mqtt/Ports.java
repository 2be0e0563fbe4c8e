package io.speck.mqtt;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Loopback ports for the brokers of tests, each handed out once in this process: a publisher outlives its writers and
 * looks for its broker for an hour, so at a port that was used before, messages of an earlier test would arrive.
 *
 * <p>Below the ports that the system gives away, and below those that the Python tests use.
 */
public final class Ports {
    private static final int FIRST = 10_000;
    private static final int COUNT = 5_000;

    private static int used;
    private static final int OFFSET = ThreadLocalRandom.current().nextInt(COUNT);

    private Ports() {}

    /** Returns a listener on a port that no test of this process has used. */
    public static synchronized ServerSocket listen() throws IOException {
        IOException taken = null;
        while (used < COUNT) {
            int port = FIRST + (OFFSET + used++) % COUNT;
            try {
                return new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
            } catch (IOException e) {
                taken = e; // by another process
            }
        }
        throw new IOException("no unused port is left", taken);
    }

    /** Returns such a port, without a listener. */
    public static int free() throws IOException {
        try (ServerSocket socket = listen()) {
            return socket.getLocalPort();
        }
    }
}
