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
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import javax.net.ssl.SSLParameters;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One MQTT 5 connection, from CONNECT to its end; it does not reconnect. */
public final class Connection {
    private static final Logger LOG = LoggerFactory.getLogger(Connection.class);
    static final int KEEP_ALIVE_SECONDS = 30;
    /** The largest packet of the protocol (MQTT 5, 1.5.5). */
    static final int LARGEST_PACKET = 268_435_460;

    private static final long CLOSE_SECONDS = 1;
    private static final int PUBACK = 0x40;

    private final Login login;
    private final Session session;
    private final ClientHandler handler;
    private volatile Channel channel;
    private byte[] password; // read before connecting, since it may be in a file

    private Connection(Login login, Session session, ConnectionListener listener) {
        this.login = login;
        this.session = session;
        this.handler = new ClientHandler(this, listener);
    }

    /**
     * Connects and waits for the broker's CONNACK.
     *
     * @throws BrokerException if the broker is unreachable, does not answer in time, or refuses the client
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
        EventLoopGroup loops = Runtime.LOOPS; // loaded before the rest of netty, since it configures netty
        SslContext tls = login.address().tls() ? TlsContexts.of(login.tls(), login.address()) : null;
        password = login.password();
        ChannelFuture connecting = new Bootstrap()
                .group(loops)
                .channel(NioSocketChannel.class)
                .resolver(HostNames.LOOK_UPS)
                .option(ChannelOption.ALLOCATOR, Runtime.BUFFERS)
                .option(ChannelOption.TCP_NODELAY, true)
                .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, (int) Math.min(timeout.toMillis(), Integer.MAX_VALUE))
                .handler(new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel opened) {
                        fillPipeline(opened, tls);
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

    private void fillPipeline(SocketChannel opened, SslContext tls) {
        channel = opened;
        if (tls != null) {
            opened.pipeline().addLast(tlsHandler(opened, tls));
        }
        opened.pipeline().addLast(new MqttDecoder(LARGEST_PACKET), MqttEncoder.INSTANCE, handler);
    }

    private SslHandler tlsHandler(SocketChannel opened, SslContext tls) {
        SslHandler created = tls.newHandler(opened.alloc(), login.address().host(), login.address().port());
        SSLParameters parameters = created.engine().getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        created.engine().setSSLParameters(parameters);
        return created;
    }

    /**
     * Subscribes at QoS 1; the broker sends retained messages only for a subscription that is new to the session.
     *
     * @throws BrokerException if the broker refuses the first filter, or does not answer in time
     */
    public void subscribe(List<String> filters, Duration timeout) throws InterruptedException {
        await(handler.subscribe(channel, filters), timeout, "subscribe to '" + filters.get(0) + "'");
    }

    /**
     * Subscribes as {@link #subscribe} does, without waiting for the answer: a broker sends it behind all messages that
     * wait in the session, which may be more than the caller reads at once.
     *
     * @param refused called if the broker refuses the first filter
     */
    public void subscribeBehindMessages(List<String> filters, Consumer<BrokerException> refused) {
        handler.subscribe(channel, filters).whenComplete((done, error) -> {
            if (error instanceof BrokerException refusal && refusal.refused()) {
                refused.accept(refusal);
            }
        });
    }

    /** True until the connection ends. */
    public boolean active() {
        return channel.isActive();
    }

    /**
     * Publishes a retained message; an empty one deletes the retained message of the topic.
     *
     * @param expirySeconds time until the broker drops it; 0 for never
     * @param packetId packet id of a publication at QoS 1, whose acknowledgement the listener gets; 0 for QoS 0
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

    /**
     * Acknowledges a message that the broker sent at QoS 1; one at QoS 0 needs nothing. A broker sends no more once as many
     * as the Receive Maximum are not acknowledged (MQTT 5, 4.9).
     */
    public void acknowledge(MqttPublishMessage message) {
        if (message.fixedHeader().qosLevel() == MqttQoS.AT_LEAST_ONCE) {
            int packetId = message.variableHeader().packetId();
            execute(() -> writeAndFlush(buffer(4).writeByte(PUBACK).writeByte(2).writeShort(packetId)));
        }
    }

    private void await(Future<?> answer, Duration timeout, String action) throws InterruptedException {
        try {
            answer.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw new BrokerException("broker " + login + " did not answer within " + timeout.toMillis()
                    + " ms (" + action + " as client '" + session.clientId() + "')", false);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof BrokerException refusal) {
                throw new BrokerException(refusal.getMessage(), refusal.refused());
            }
            throw unreachable(e.getCause());
        }
    }

    /** Engines show the innermost cause only, so an exception that describes its cause carries none. */
    private BrokerException unreachable(Throwable cause) {
        LOG.debug("broker {}", login, cause);
        String description = TlsErrors.describe(login, cause);
        return new BrokerException("cannot reach broker " + login + ": "
                + (description != null ? description : reason(cause)), description != null);
    }

    /** The message of an error; netty's of a name that is unknown is the name alone. */
    private static String reason(Throwable cause) {
        return cause instanceof UnknownHostException ? "its host name is not known here"
                : cause.getMessage() != null ? cause.getMessage() : cause.toString();
    }

    public Login login() {
        return login;
    }

    public Session session() {
        return session;
    }

    /** The password for CONNECT; null for none. */
    byte[] password() {
        return password;
    }

    /** True if the broker already had a session of this name. */
    public boolean sessionPresent() {
        return handler.sessionPresent();
    }

    /** The broker's limit of unacknowledged messages from this client. */
    public int receiveMaximum() {
        return handler.receiveMaximum();
    }

    /** The number of topic aliases that the broker permits on this connection; 0 for none. */
    public int topicAliasMaximum() {
        return handler.topicAliasMaximum();
    }

    /** The largest packet that the broker accepts, in bytes. */
    public long maximumPacketBytes() {
        return handler.maximumPacketBytes();
    }

    /** Runs a task in the event loop, in order with the packets written there. */
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

    /**
     * Sends a ping; the broker answers once it has handled all packets written before.
     *
     * @return completed by the answer, of which the listener learns too; fails if the connection ends before
     */
    public CompletableFuture<Void> ping() {
        CompletableFuture<Void> answered = new CompletableFuture<>();
        execute(() -> handler.ping(channel, answered));
        return answered;
    }

    /** Stops or resumes reading from the socket; meanwhile the broker keeps its messages. */
    public void setReading(boolean enabled) {
        handler.setReading(channel, enabled);
    }

    /** Disconnects; the broker keeps the session as agreed. */
    public void close() {
        disconnect(new MqttProperties());
    }

    /** Disconnects, and the broker ends the session now, whatever was agreed. */
    public void closeAndEndSession() {
        MqttProperties properties = new MqttProperties();
        properties.add(new IntegerProperty(MqttProperties.SESSION_EXPIRY_INTERVAL, 0));
        disconnect(properties);
    }

    /**
     * Sends DISCONNECT, and awaits the end of the connection.
     *
     * <p>The broker closes the connection once it has read everything. If this side closed first, with data of the
     * broker unread, the reset would destroy packets that the broker has not read yet, acknowledgements included.
     */
    private void disconnect(MqttProperties properties) {
        handler.closing();
        MqttMessage disconnect = new MqttMessage(
                new MqttFixedHeader(MqttMessageType.DISCONNECT, false, MqttQoS.AT_MOST_ONCE, false, 0),
                new MqttReasonCodeAndPropertiesVariableHeader((byte) 0, properties));
        channel.eventLoop().execute(() -> {
            channel.config().setAutoRead(true);
            channel.writeAndFlush(disconnect).addListener(done -> ((SocketChannel) channel).shutdownOutput());
        });
        if (!channel.closeFuture().awaitUninterruptibly(CLOSE_SECONDS, TimeUnit.SECONDS)) {
            channel.close();
        }
    }

    /** Closes the socket without DISCONNECT, as a crash would. */
    public void abandon() {
        handler.closing();
        if (channel != null) {
            channel.close();
        }
    }
}
