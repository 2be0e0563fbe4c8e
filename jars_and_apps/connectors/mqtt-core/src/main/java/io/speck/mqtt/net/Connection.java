package io.speck.mqtt.net;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.mqtt.MqttDecoder;
import io.netty.handler.codec.mqtt.MqttEncoder;
import io.netty.handler.codec.mqtt.MqttFixedHeader;
import io.netty.handler.codec.mqtt.MqttMessage;
import io.netty.handler.codec.mqtt.MqttMessageType;
import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttProperties.IntegerProperty;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttPublishVariableHeader;
import io.netty.handler.codec.mqtt.MqttQoS;
import io.netty.handler.codec.mqtt.MqttReasonCodeAndPropertiesVariableHeader;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslHandler;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLParameters;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One MQTT 5 connection, from CONNECT to its end; it never comes back by itself. */
public final class Connection {
    private static final Logger LOG = LoggerFactory.getLogger(Connection.class);
    static final int KEEP_ALIVE_SECONDS = 30;
    /** The largest packet of the protocol (MQTT 5, 1.5.5). */
    private static final int LARGEST_PACKET = 268_435_460;

    private static final long LEAVE_SECONDS = 1;

    private final Login login;
    private final Session session;
    private final ClientHandler handler;
    private volatile Channel channel;
    private byte[] password; // read before the connection is begun, as it may be in a file

    private Connection(Login login, Session session, ConnectionListener listener) {
        this.login = login;
        this.session = session;
        this.handler = new ClientHandler(this, listener);
    }

    /**
     * Connects and waits for the broker's consent.
     *
     * @throws BrokerException when the broker is out of reach, silent for the time given, or refuses
     */
    public static Connection open(Login login, Session session, ConnectionListener listener, Duration timeout)
            throws InterruptedException {
        Connection connection = new Connection(login, session, listener);
        try {
            connection.connect(timeout);
            return connection;
        } catch (InterruptedException | RuntimeException e) {
            connection.abandon();
            throw e;
        }
    }

    private void connect(Duration timeout) throws InterruptedException {
        EventLoopGroup loops = Runtime.LOOPS; // before anything else of netty, for the sake of its settings
        SslContext tls = login.address().tls() ? TlsContexts.of(login.tls(), login.address()) : null;
        password = login.password();
        ChannelFuture connecting = new Bootstrap()
                .group(loops)
                .channel(NioSocketChannel.class)
                .option(ChannelOption.ALLOCATOR, Runtime.BUFFERS)
                .option(ChannelOption.TCP_NODELAY, true)
                .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, (int) Math.min(timeout.toMillis(), Integer.MAX_VALUE))
                .handler(new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel opened) {
                        fill(opened, tls);
                    }
                })
                .connect(login.address().host(), login.address().port());
        connecting.addListener(done -> {
            if (!done.isSuccess()) {
                handler.opened().completeExceptionally(done.cause());
            }
        });
        await(handler.opened(), timeout, "connect");
    }

    private void fill(SocketChannel opened, SslContext tls) {
        channel = opened;
        if (tls != null) {
            opened.pipeline().addLast(tlsHandler(opened, tls));
        }
        opened.pipeline().addLast(new MqttDecoder(LARGEST_PACKET), MqttEncoder.INSTANCE, handler);
    }

    private SslHandler tlsHandler(SocketChannel opened, SslContext tls) {
        SslHandler added = tls.newHandler(opened.alloc(), login.address().host(), login.address().port());
        SSLParameters parameters = added.engine().getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        added.engine().setSSLParameters(parameters);
        return added;
    }

    /**
     * Subscribes at QoS 1; retained messages come only with a subscription that the session did not have.
     *
     * @throws BrokerException when the broker refuses the first filter, or does not answer in time
     */
    public void subscribe(List<String> filters, Duration timeout) throws InterruptedException {
        await(handler.subscribe(channel, filters), timeout, "subscribe to '" + filters.get(0) + "'");
    }

    /** Whether it has not ended yet. */
    public boolean active() {
        return channel.isActive();
    }

    /**
     * Leaves a message at a topic; an empty one removes what is there.
     *
     * @param expirySeconds how long it stays; 0: for good
     * @param packetId of the acknowledgement that the listener will hear of; 0: of none
     */
    public void retain(String topic, String payload, int expirySeconds, int packetId) {
        MqttQoS quality = packetId == 0 ? MqttQoS.AT_MOST_ONCE : MqttQoS.AT_LEAST_ONCE;
        MqttProperties properties = new MqttProperties();
        if (expirySeconds > 0) {
            properties.add(new IntegerProperty(MqttProperties.PUBLICATION_EXPIRY_INTERVAL, expirySeconds));
        }
        execute(() -> writeAndFlush(
                new MqttPublishMessage(new MqttFixedHeader(MqttMessageType.PUBLISH, false, quality, true, 0),
                        new MqttPublishVariableHeader(topic, packetId, properties),
                        ByteBufUtil.writeUtf8(channel.alloc(), payload))));
    }

    private void await(Future<?> answer, Duration timeout, String what) throws InterruptedException {
        try {
            answer.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw new BrokerException("broker " + login + " did not answer within " + timeout.toMillis()
                    + " ms (" + what + " as client '" + session.clientId() + "')", false);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof BrokerException refusal) {
                throw new BrokerException(refusal.getMessage(), refusal.refused());
            }
            throw unreachable(e.getCause());
        }
    }

    /** Engines show the innermost cause of all: where our own words say it, they are that. */
    private BrokerException unreachable(Throwable cause) {
        String trouble = TlsErrors.words(login, cause);
        if (trouble == null) {
            return new BrokerException("cannot reach broker " + login + ": " + cause.getMessage(), cause);
        }
        LOG.debug("broker {}", login, cause);
        return new BrokerException("cannot reach broker " + login + ": " + trouble, true);
    }

    public Login login() {
        return login;
    }

    public Session session() {
        return session;
    }

    /** What we show to the broker; null for nothing. */
    byte[] password() {
        return password;
    }

    /** Whether the broker had kept a session of this name. */
    public boolean sessionPresent() {
        return handler.sessionPresent();
    }

    /** How many unacknowledged messages the broker takes from us. */
    public int receiveMaximum() {
        return handler.receiveMaximum();
    }

    /** The largest packet that the broker takes, in bytes. */
    public long maximumPacketBytes() {
        return handler.maximumPacketBytes();
    }

    /** Runs something in the event loop, in order with what is written from there. */
    public void execute(Runnable task) {
        channel.eventLoop().execute(task);
    }

    public void executeLater(Runnable task, long millis) {
        channel.eventLoop().schedule(task, millis, TimeUnit.MILLISECONDS);
    }

    public void writeAndFlush(Object packet) {
        channel.writeAndFlush(packet, channel.voidPromise());
    }

    public void write(Object packet) {
        channel.write(packet, channel.voidPromise());
    }

    public void flush() {
        channel.flush();
    }

    public ByteBuf buffer(int bytes) {
        return channel.alloc().ioBuffer(bytes);
    }

    /** Asks for an answer, which comes when all written before was handled. */
    public void ping() {
        execute(() -> handler.ping(channel, true));
    }

    /** Stops or resumes reading from the socket: the broker then keeps what it has. */
    public void reading(boolean wanted) {
        handler.reading(channel, wanted);
    }

    /**
     * Takes leave of the broker, which keeps the session as agreed, or ends it now.
     *
     * <p>The broker closes the connection when it has read all; if we did so first, with something of its unread, the
     * reset would destroy what it has not read yet, acknowledgements included.
     */
    public void close(boolean endSession) {
        handler.closing();
        MqttProperties properties = new MqttProperties();
        if (endSession) {
            properties.add(new IntegerProperty(MqttProperties.SESSION_EXPIRY_INTERVAL, 0));
        }
        MqttMessage leave = new MqttMessage(
                new MqttFixedHeader(MqttMessageType.DISCONNECT, false, MqttQoS.AT_MOST_ONCE, false, 0),
                new MqttReasonCodeAndPropertiesVariableHeader((byte) 0, properties));
        channel.eventLoop().execute(() -> {
            channel.config().setAutoRead(true);
            channel.writeAndFlush(leave).addListener(done -> ((SocketChannel) channel).shutdownOutput());
        });
        if (!channel.closeFuture().awaitUninterruptibly(LEAVE_SECONDS, TimeUnit.SECONDS)) {
            channel.close();
        }
    }

    /** Closes the socket without a word, as a crash would. */
    public void abandon() {
        handler.closing();
        if (channel != null) {
            channel.close();
        }
    }
}
