import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Publishes numbered messages to one topic of an MQTT broker, receives them from another, and counts.
 *
 * <p>{@code java Load PORT [QUIET]} reads one command a line from standard input and answers each with one JSON object a line:
 *
 * <pre>
 * flood out=TOPIC in=TOPIC messages=N bytes=B [window=W]              as fast as the broker takes them
 * paced out=TOPIC in=TOPIC rate=R seconds=S warmup=S bytes=B          R messages/s at even distances
 * </pre>
 *
 * <p>A run in which nothing came for {@code QUIET} seconds (60) fails.
 *
 * <p>MQTT 3.1.1 over two plain sockets, QoS 1 both ways. Nothing is allocated and nothing is logged for a message, and
 * many packets share one write and one read, so that the broker and not this program is the limit. Times are
 * {@code System.nanoTime()} of this process, and travel in the payload: run, number, time, padding, all in ASCII.
 */
public final class Load {
    private static final int CONNECT = 0x10;
    private static final int CONNACK = 0x20;
    private static final int PUBLISH_QOS_1 = 0x32;
    private static final int PUBACK = 0x40;
    private static final int SUBSCRIBE = 0x82;
    private static final int SUBACK = 0x90;
    private static final int DISCONNECT = 0xE0;

    private static final int WRITE_BYTES = 32 << 10;
    private static final int READ_BYTES = 256 << 10;
    private static final int PACKET_IDS = 65535;

    private static int quietSeconds = 60;

    private Load() {}

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        quietSeconds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : quietSeconds;
        Flow.serve(new Flow.Clients() {
            @Override
            public Flow.Publisher publisher(Map<String, String> options, int run, boolean paced) throws IOException {
                int window = paced ? PACKET_IDS - 1 : Integer.parseInt(options.getOrDefault("window", "2000"));
                return new Publisher(port, options.get("out"), run, Commands.size(options), window);
            }

            @Override
            public Flow.Receiver receiver(String topic, int run, int messages) throws IOException {
                return new Receiver(port, topic, run, messages);
            }
        });
    }

    /** One connection with a clean session. */
    private static class Connection implements AutoCloseable {
        final Socket socket;
        final InputStream in;
        final OutputStream out;

        Connection(int port, String clientId) throws IOException {
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(quietSeconds * 1000);
            in = socket.getInputStream();
            out = socket.getOutputStream();
            byte[] id = utf8(clientId);
            byte[] head = {0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0};
            byte[] packet = {CONNECT, (byte) (head.length + id.length)};
            out.write(join(packet, head, id));
            expect(CONNACK, 0);
        }

        /** Reads a short packet, which must be of this type and have this code as its last byte. */
        final void expect(int type, int code) throws IOException {
            DataInputStream data = new DataInputStream(in);
            int got = data.readUnsignedByte();
            byte[] rest = new byte[data.readUnsignedByte()];
            data.readFully(rest);
            if (got != type || rest[rest.length - 1] != code) {
                throw new IOException("the broker answers " + got + " " + Arrays.toString(rest) + ", not " + type);
            }
        }

        @Override
        public void close() throws IOException {
            try (socket) {
                out.write(new byte[] {(byte) DISCONNECT, 0});
            }
        }
    }

    /** Keeps at most {@code window} messages unacknowledged. */
    private static final class Publisher extends Connection implements Flow.Publisher {
        private final Semaphore window;
        private final int windowSize;
        private final byte[] packet;
        private final int idAt;
        private final int payloadAt;
        private final byte[] pending;
        private int pendingBytes;
        private int reserved;
        private int packetId;
        private volatile IOException failure;

        Publisher(int port, String topic, int run, int size, int windowSize) throws IOException {
            super(port, "load-publisher");
            this.windowSize = windowSize;
            this.window = new Semaphore(windowSize);
            byte[] name = utf8(topic);
            int length = name.length + 2 + size;
            if (length >= 1 << 14) {
                throw new IllegalArgumentException("topic and payload are too long together: " + length);
            }
            byte[] head = length < 1 << 7
                    ? new byte[] {PUBLISH_QOS_1, (byte) length}
                    : new byte[] {PUBLISH_QOS_1, (byte) (length | 0x80), (byte) (length >> 7)};
            packet = join(head, name, new byte[2 + size]);
            idAt = head.length + name.length;
            payloadAt = idAt + 2;
            Tally.prepare(packet, payloadAt, packet.length, run);
            pending = new byte[Math.max(WRITE_BYTES, packet.length)];
            Thread acknowledgements = new Thread(this::readAcknowledgements, "acknowledgements");
            acknowledgements.setDaemon(true);
            acknowledgements.start();
        }

        @Override
        public void publish(int number) throws IOException, InterruptedException {
            reserve();
            packetId = packetId % PACKET_IDS + 1;
            packet[idAt] = (byte) (packetId >> 8);
            packet[idAt + 1] = (byte) packetId;
            Tally.stamp(packet, payloadAt, number);
            if (pendingBytes + packet.length > pending.length) {
                flush();
            }
            System.arraycopy(packet, 0, pending, pendingBytes, packet.length);
            pendingBytes += packet.length;
        }

        /** Takes what is free of the window at once, rather than one permit for each message. */
        private void reserve() throws IOException, InterruptedException {
            if (reserved == 0) {
                reserved = window.drainPermits();
            }
            if (reserved == 0) {
                flush();
                acquire(Math.max(1, windowSize / 8));
                reserved = Math.max(1, windowSize / 8);
            }
            reserved--;
        }

        @Override
        public void flush() throws IOException {
            out.write(pending, 0, pendingBytes);
            pendingBytes = 0;
        }

        @Override
        public void awaitAcknowledged() throws IOException, InterruptedException {
            flush();
            acquire(windowSize - reserved);
            window.release(windowSize - reserved);
        }

        private void acquire(int permits) throws IOException, InterruptedException {
            boolean got = window.tryAcquire(permits, quietSeconds, TimeUnit.SECONDS);
            if (failure != null) {
                throw failure;
            }
            if (!got) {
                throw new IOException("the broker acknowledged nothing in " + quietSeconds + " s");
            }
        }

        private void readAcknowledgements() {
            byte[] read = new byte[16 << 10];
            int left = 0;
            try {
                for (int count = in.read(read); count >= 0; count = in.read(read)) {
                    // A PUBACK of MQTT 3.1.1 has four bytes, and nothing else comes here.
                    left += count;
                    window.release(left / 4);
                    left %= 4;
                }
                throw new IOException("the broker closed the connection");
            } catch (IOException e) {
                if (!socket.isClosed()) {
                    failure = e;
                    window.release(windowSize);
                }
            }
        }
    }

    /** Counts the messages of one run; those of others are acknowledged only. */
    private static final class Receiver extends Connection implements Flow.Receiver {
        private final Tally tally;
        private final byte[] acknowledgements = new byte[READ_BYTES];
        private int acknowledgementBytes;

        Receiver(int port, String topic, int run, int messages) throws IOException {
            super(port, "load-receiver");
            this.tally = new Tally(run, messages);
            byte[] name = utf8(topic);
            byte[] head = {(byte) SUBSCRIBE, (byte) (name.length + 3), 0, 1};
            out.write(join(head, name, new byte[] {1}));
            expect(SUBACK, 1);
            Thread reader = new Thread(this::read, "receiver");
            reader.setDaemon(true);
            reader.start();
        }

        @Override
        public Tally tally() {
            return tally;
        }

        private void read() {
            byte[] buffer = new byte[READ_BYTES];
            int filled = 0;
            try {
                while (tally.missing() > 0) {
                    int count = in.read(buffer, filled, buffer.length - filled);
                    if (count < 0) {
                        throw new IOException("the broker closed the connection");
                    }
                    int used = packets(buffer, filled + count, System.nanoTime());
                    filled += count - used;
                    System.arraycopy(buffer, used, buffer, 0, filled);
                    out.write(acknowledgements, 0, acknowledgementBytes);
                    acknowledgementBytes = 0;
                }
                tally.end(null);
            } catch (java.net.SocketTimeoutException e) {
                tally.endQuiet(quietSeconds);
            } catch (IOException e) {
                tally.end(e);
            }
        }

        /** Takes the whole packets at the start of the buffer; answers how many bytes they are. */
        private int packets(byte[] buffer, int filled, long now) throws IOException {
            int at = 0;
            while (filled - at >= 2) {
                int body = at + 1;
                int length = buffer[body] & 0x7F;
                for (int shift = 7; buffer[body++] < 0; shift += 7) {
                    if (body == filled) {
                        return at;
                    }
                    length |= (buffer[body] & 0x7F) << shift;
                }
                if (body + length > filled) {
                    if (length > buffer.length - 5) {
                        throw new IOException("a packet of " + length + " bytes");
                    }
                    return at;
                }
                if ((buffer[at] & 0xF0) == 0x30) {
                    message(buffer, body, body + length, now);
                }
                at = body + length;
            }
            return at;
        }

        private void message(byte[] buffer, int body, int end, long now) {
            int id = body + 2 + ((buffer[body] & 0xFF) << 8 | buffer[body + 1] & 0xFF);
            acknowledgements[acknowledgementBytes++] = PUBACK;
            acknowledgements[acknowledgementBytes++] = 2;
            acknowledgements[acknowledgementBytes++] = buffer[id];
            acknowledgements[acknowledgementBytes++] = buffer[id + 1];
            int payload = id + 2;
            tally.add(buffer, payload, end, now);
        }
    }

    private static byte[] utf8(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length > 120) {
            throw new IllegalArgumentException("too long: " + text);
        }
        return join(new byte[] {0, (byte) bytes.length}, bytes);
    }

    private static byte[] join(byte[]... parts) {
        byte[] joined = new byte[Arrays.stream(parts).mapToInt(part -> part.length).sum()];
        int at = 0;
        for (byte[] part : parts) {
            System.arraycopy(part, 0, joined, at, part.length);
            at += part.length;
        }
        return joined;
    }
}
