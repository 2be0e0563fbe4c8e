package io.speck.mqtt;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.IntUnaryOperator;

/** A TCP relay in front of a broker, whose connections a test can cut, or block in one direction. */
public final class CuttingProxy implements AutoCloseable {
    private static final int PIECE = 1024;

    private final ServerSocket listener = Ports.listen();
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final int target;
    private volatile boolean swallowing;
    private volatile long upwardBytes = Long.MAX_VALUE;
    private final Queue<Long> cuts = new ConcurrentLinkedQueue<>();
    private volatile boolean refusing;
    private volatile long downwardBytes = Long.MAX_VALUE;
    private volatile long delayMillis;
    private volatile int largestPiece = PIECE;
    private volatile boolean cutsAtLarge;
    private final List<byte[]> beginnings = new CopyOnWriteArrayList<>();

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

    /** Drops all data of clients, or stops doing so. */
    public void swallow(boolean enabled) {
        swallowing = enabled;
    }

    /** Drops all data of clients after a number of further bytes. */
    public void swallowAfter(long bytes) {
        upwardBytes = bytes;
    }

    /** Cuts each of the next connections after a number of bytes to the client. */
    public void cutAfter(Long... bytes) {
        cuts.addAll(List.of(bytes));
    }

    /** Holds all data to clients back after a number of further bytes, until {@link #resume}. */
    public void stallAfter(long bytes) {
        downwardBytes = bytes;
    }

    /** Holds each piece of data to clients back for some time. */
    public void delay(long millis) {
        delayMillis = millis;
    }

    /** Cuts a connection at data of clients that come in a larger piece, as a broker may at a packet that is too large. */
    public void cutAtPiecesAbove(int bytes) {
        cutsAtLarge = true;
        largestPiece = bytes;
    }

    /** Drops the data of a client from a larger piece on, as a broker that does not get to handle it. */
    public void dropFromPiecesAbove(int bytes) {
        cutsAtLarge = false;
        largestPiece = bytes;
    }

    /** The first bytes of each client so far, with its CONNECT packet. */
    public List<byte[]> beginnings() {
        return beginnings;
    }

    public synchronized void resume() {
        downwardBytes = Long.MAX_VALUE;
        notifyAll();
    }

    private synchronized void awaitResumed(int bytes) {
        try {
            Thread.sleep(delayMillis);
            while (downwardBytes < bytes) {
                wait();
            }
            downwardBytes -= downwardBytes == Long.MAX_VALUE ? 0 : bytes;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Closes new connections at once, or stops doing so. */
    public void refuse(boolean enabled) {
        refusing = enabled;
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
            Long cut = cuts.poll();
            daemon(() -> relayUp(client, broker));
            daemon(() -> relayDown(broker, client, cut == null ? Long.MAX_VALUE : cut));
        } catch (IOException e) {
            client.close();
        }
    }

    private void relayUp(Socket client, Socket broker) {
        AtomicBoolean dropping = new AtomicBoolean();
        relay(client, broker, beginnings::add, read -> {
            boolean large = read > largestPiece;
            dropping.compareAndSet(false, large);
            long passing = swallowing || dropping.get() ? 0 : Math.min(read, upwardBytes);
            upwardBytes -= upwardBytes == Long.MAX_VALUE ? 0 : passing;
            return large && cutsAtLarge ? -1 : (int) passing;
        });
    }

    private void relayDown(Socket broker, Socket client, long bytes) {
        AtomicLong left = new AtomicLong(bytes);
        relay(broker, client, first -> { }, read -> {
            awaitResumed(read);
            int passing = (int) Math.min(read, left.get());
            return left.addAndGet(-passing) > 0 ? passing : -passing;
        });
    }

    /** @param passing the number of bytes to pass on, of those read; negative to cut the connection after them */
    private static void relay(Socket from, Socket to, Consumer<byte[]> beginning, IntUnaryOperator passing) {
        byte[] piece = new byte[PIECE];
        boolean first = true;
        try {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int read = in.read(piece); read >= 0; read = in.read(piece)) {
                if (first) {
                    beginning.accept(Arrays.copyOf(piece, read));
                    first = false;
                }
                int bytes = passing.applyAsInt(read);
                out.write(piece, 0, Math.abs(bytes));
                if (bytes < 0) {
                    throw new IOException("cut");
                }
            }
            to.shutdownOutput();
        } catch (IOException e) {
            close(from);
            close(to);
        }
    }

    private static void close(Socket socket) {
        try {
            socket.close();
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
