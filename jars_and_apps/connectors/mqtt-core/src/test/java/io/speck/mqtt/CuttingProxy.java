package io.speck.mqtt;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A TCP relay in front of a broker, whose connections a test can cut, or make deaf in one direction. */
public final class CuttingProxy implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final int target;
    private volatile boolean swallowing;
    private volatile boolean refusing;

    public CuttingProxy(int target) throws IOException {
        this.target = target;
        daemon(this::accept);
    }

    public String url() {
        return "tcp://127.0.0.1:" + listener.getLocalPort();
    }

    /** Closes all connections. */
    public void cut() throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    /** Whether what clients send gets lost on its way. */
    public void swallow(boolean wanted) {
        swallowing = wanted;
    }

    /** Whether new connections are closed at once. */
    public void refuse(boolean wanted) {
        refusing = wanted;
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                connect(listener.accept());
            } catch (IOException e) {
                continue;
            }
        }
    }

    private void connect(Socket client) throws IOException {
        sockets.add(client);
        try {
            if (refusing) {
                throw new IOException("refused");
            }
            Socket broker = new Socket(InetAddress.getLoopbackAddress(), target);
            sockets.add(broker);
            daemon(() -> relay(client, broker, true));
            daemon(() -> relay(broker, client, false));
        } catch (IOException e) {
            client.close();
        }
    }

    private void relay(Socket from, Socket to, boolean upwards) {
        byte[] piece = new byte[16384];
        try {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int read = in.read(piece); read >= 0; read = in.read(piece)) {
                if (!(upwards && swallowing)) {
                    out.write(piece, 0, read);
                }
            }
            to.shutdownOutput();
        } catch (IOException e) {
            return;
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }
}
