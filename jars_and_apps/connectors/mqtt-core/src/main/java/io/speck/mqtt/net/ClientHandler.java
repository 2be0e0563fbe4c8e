package io.speck.mqtt.net;

import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.handler.codec.mqtt.MqttConnAckMessage;
import io.netty.handler.codec.mqtt.MqttConnAckVariableHeader;
import io.netty.handler.codec.mqtt.MqttConnectMessage;
import io.netty.handler.codec.mqtt.MqttConnectPayload;
import io.netty.handler.codec.mqtt.MqttConnectReturnCode;
import io.netty.handler.codec.mqtt.MqttConnectVariableHeader;
import io.netty.handler.codec.mqtt.MqttFixedHeader;
import io.netty.handler.codec.mqtt.MqttMessage;
import io.netty.handler.codec.mqtt.MqttMessageIdAndPropertiesVariableHeader;
import io.netty.handler.codec.mqtt.MqttMessageIdVariableHeader;
import io.netty.handler.codec.mqtt.MqttMessageType;
import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttProperties.IntegerProperty;
import io.netty.handler.codec.mqtt.MqttPubReplyMessageVariableHeader;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttQoS;
import io.netty.handler.codec.mqtt.MqttReasonCodeAndPropertiesVariableHeader;
import io.netty.handler.codec.mqtt.MqttSubAckMessage;
import io.netty.handler.codec.mqtt.MqttSubscribeMessage;
import io.netty.handler.codec.mqtt.MqttSubscribePayload;
import io.netty.handler.codec.mqtt.MqttSubscriptionOption;
import io.netty.handler.codec.mqtt.MqttSubscriptionOption.RetainedHandlingPolicy;
import io.netty.handler.codec.mqtt.MqttTopicSubscription;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.ScheduledFuture;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The client's side of the protocol on one channel: handshake, subscription, keep-alive, dispatch of packets. */
final class ClientHandler extends ChannelInboundHandlerAdapter {
    private static final int MQTT_5 = 5;
    private static final int SUBSCRIBE_ID = 1;
    private static final long READ_DELAY_MILLIS = 1;

    private final Connection connection;
    private final ConnectionListener listener;
    private final TopicAliases aliases;
    private final CompletableFuture<Void> opened = new CompletableFuture<>();
    private final CompletableFuture<Void> subscribed = new CompletableFuture<>();
    /** The unanswered pings, the oldest first. */
    private final Queue<Ping> pings = new ArrayDeque<>();
    private volatile boolean closing;
    private volatile boolean sessionPresent;
    private volatile int receiveMaximum = 65535;
    private volatile int topicAliasMaximum;
    private volatile long maximumPacketBytes = Connection.LARGEST_PACKET;
    private boolean accepted;
    private boolean paused;
    private boolean readDelayed;
    private long lastReadNanos;
    private int keepAliveSeconds = Connection.KEEP_ALIVE_SECONDS;
    private String endReason = "the connection was closed";
    private boolean connected;
    private ScheduledFuture<?> keepAlive;

    /** @param reported true if the listener learns of the answer */
    private record Ping(CompletableFuture<Void> answered, boolean reported) {}

    ClientHandler(Connection connection, ConnectionListener listener) {
        this.connection = connection;
        this.listener = listener;
        this.aliases = new TopicAliases(connection.session().topicAliases());
    }

    CompletableFuture<Void> opened() {
        return opened;
    }

    void closing() {
        closing = true;
    }

    boolean sessionPresent() {
        return sessionPresent;
    }

    int receiveMaximum() {
        return receiveMaximum;
    }

    int topicAliasMaximum() {
        return topicAliasMaximum;
    }

    long maximumPacketBytes() {
        return maximumPacketBytes;
    }

    void setReading(Channel channel, boolean enabled) {
        channel.eventLoop().execute(() -> {
            paused = !enabled;
            lastReadNanos = System.nanoTime();
            channel.config().setAutoRead(enabled && !readDelayed);
        });
    }

    CompletableFuture<Void> subscribe(Channel channel, List<String> filters) {
        MqttSubscriptionOption option = new MqttSubscriptionOption(
                MqttQoS.AT_LEAST_ONCE, false, false, RetainedHandlingPolicy.SEND_AT_SUBSCRIBE_IF_NOT_YET_EXISTS);
        channel.writeAndFlush(new MqttSubscribeMessage(
                new MqttFixedHeader(MqttMessageType.SUBSCRIBE, false, MqttQoS.AT_LEAST_ONCE, false, 0),
                new MqttMessageIdAndPropertiesVariableHeader(SUBSCRIBE_ID, MqttProperties.NO_PROPERTIES),
                new MqttSubscribePayload(
                        filters.stream().map(filter -> new MqttTopicSubscription(filter, option)).toList())));
        return subscribed;
    }

    @Override
    public void channelActive(ChannelHandlerContext context) {
        connected = true;
        if (closing) { // given up before it was registered: it would take the session from the next connection
            context.close();
            return;
        }
        context.writeAndFlush(connect());
    }

    private MqttConnectMessage connect() {
        Session session = connection.session();
        Login login = connection.login();
        MqttProperties properties = new MqttProperties();
        properties.add(new IntegerProperty(MqttProperties.SESSION_EXPIRY_INTERVAL, (int) session.expirySeconds()));
        properties.add(new IntegerProperty(MqttProperties.RECEIVE_MAXIMUM, session.receiveMaximum()));
        if (session.topicAliases() > 0) {
            properties.add(new IntegerProperty(MqttProperties.TOPIC_ALIAS_MAXIMUM, session.topicAliases()));
        }
        byte[] password = connection.password();
        return new MqttConnectMessage(
                new MqttFixedHeader(MqttMessageType.CONNECT, false, MqttQoS.AT_MOST_ONCE, false, 0),
                new MqttConnectVariableHeader("MQTT", MQTT_5, login.username() != null, password != null, false, 0,
                        false, session.clean(), Connection.KEEP_ALIVE_SECONDS, properties),
                new MqttConnectPayload(session.clientId(), MqttProperties.NO_PROPERTIES, null, null,
                        login.username(), password));
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object received) {
        MqttMessage packet = (MqttMessage) received;
        try {
            if (packet.decoderResult().isFailure()) {
                exceptionCaught(context, packet.decoderResult().cause());
                return;
            }
            handle(context, packet);
        } finally {
            ReferenceCountUtil.release(packet);
        }
    }

    private void handle(ChannelHandlerContext context, MqttMessage packet) {
        switch (packet.fixedHeader().messageType()) {
            case PUBLISH -> {
                Runtime.LOOP_COST.count();
                listener.published(connection, aliases.resolved((MqttPublishMessage) packet));
            }
            case PUBACK -> acknowledged(packet);
            case PINGRESP -> answered();
            case CONNACK -> accept(context, (MqttConnAckMessage) packet);
            case SUBACK -> subscribed((MqttSubAckMessage) packet);
            case DISCONNECT -> disconnected(context, packet);
            default -> { }
        }
    }

    /** Sends a ping, in the event loop; its answer is reported to the listener, and completes the future. */
    void ping(Channel channel, CompletableFuture<Void> answered) {
        if (channel.isActive()) {
            ping(channel, new Ping(answered, true));
        } else {
            answered.completeExceptionally(end());
        }
    }

    private void ping(Channel channel, Ping ping) {
        pings.add(ping);
        channel.writeAndFlush(MqttMessage.PINGREQ);
    }

    private void answered() {
        Ping ping = pings.poll();
        if (ping != null && ping.reported()) {
            listener.answered(connection);
        }
        if (ping != null) {
            ping.answered().complete(null);
        }
    }

    private void acknowledged(MqttMessage packet) {
        MqttMessageIdVariableHeader header = (MqttMessageIdVariableHeader) packet.variableHeader();
        int reason = header instanceof MqttPubReplyMessageVariableHeader reply ? reply.reasonCode() & 0xFF : 0;
        listener.acknowledged(connection, header.messageId(), reason);
    }

    private void accept(ChannelHandlerContext context, MqttConnAckMessage packet) {
        if (closing) {
            return; // nobody would use it
        }
        MqttConnAckVariableHeader header = packet.variableHeader();
        if (header.connectReturnCode() != MqttConnectReturnCode.CONNECTION_ACCEPTED) {
            endReason = "broker " + connection.login() + " refuses client '" + connection.session().clientId()
                    + "': " + ReasonCodes.connect(header.connectReturnCode());
            opened.completeExceptionally(new BrokerException(endReason, true));
            context.close();
            return;
        }
        sessionPresent = header.isSessionPresent();
        receiveMaximum = limit(header, MqttProperties.RECEIVE_MAXIMUM, 65535);
        topicAliasMaximum = limit(header, MqttProperties.TOPIC_ALIAS_MAXIMUM, 0);
        int largest = limit(header, MqttProperties.MAXIMUM_PACKET_SIZE, -1);
        maximumPacketBytes = largest == -1 ? Connection.LARGEST_PACKET
                : Math.min(Connection.LARGEST_PACKET, Integer.toUnsignedLong(largest));
        keepAliveSeconds = limit(header, MqttProperties.SERVER_KEEP_ALIVE, keepAliveSeconds);
        accepted = true;
        listener.opened(connection);
        keepAlive(context);
        opened.complete(null);
    }

    private static int limit(MqttConnAckVariableHeader header, int property, int fallback) {
        return header.properties().getProperty(property) instanceof IntegerProperty found ? found.value() : fallback;
    }

    private void subscribed(MqttSubAckMessage packet) {
        int reason = packet.payload().reasonCodes().get(0);
        if (reason >= 0x80) {
            subscribed.completeExceptionally(new BrokerException("broker " + connection.login()
                    + " refuses the subscription of client '" + connection.session().clientId() + "': "
                    + ReasonCodes.text(reason), true));
        } else {
            subscribed.complete(null);
        }
    }

    private void disconnected(ChannelHandlerContext context, MqttMessage packet) {
        int reason = ((MqttReasonCodeAndPropertiesVariableHeader) packet.variableHeader()).reasonCode() & 0xFF;
        endReason = ReasonCodes.text(reason);
        context.close();
    }

    /** Pings each half interval; a broker silent for one and a half intervals counts as dead (MQTT 5, 3.1.2.10). */
    private void keepAlive(ChannelHandlerContext context) {
        lastReadNanos = System.nanoTime();
        if (keepAliveSeconds <= 0) {
            return;
        }
        long intervalMillis = TimeUnit.SECONDS.toMillis(keepAliveSeconds) / 2;
        keepAlive = context.executor().scheduleAtFixedRate(() -> {
            boolean silent = System.nanoTime() - lastReadNanos > TimeUnit.MILLISECONDS.toNanos(3 * intervalMillis);
            if (silent && !paused) {
                endReason = "the broker was silent for " + 3 * intervalMillis + " ms";
                context.close();
            } else {
                ping(context.channel(), new Ping(new CompletableFuture<>(), false));
            }
        }, intervalMillis, intervalMillis, TimeUnit.MILLISECONDS);
    }

    @Override
    public void channelReadComplete(ChannelHandlerContext context) {
        lastReadNanos = System.nanoTime();
        if (accepted && !paused && !readDelayed) {
            delayNextRead(context.channel());
        }
        context.fireChannelReadComplete();
    }

    /** Delays the next read: to read each packet as it arrives would cost a wake-up and a system call a message. */
    private void delayNextRead(Channel channel) {
        readDelayed = true;
        channel.config().setAutoRead(false);
        channel.eventLoop().schedule(() -> {
            readDelayed = false;
            channel.config().setAutoRead(!paused || closing);
        }, READ_DELAY_MILLIS, TimeUnit.MILLISECONDS);
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        String description = TlsErrors.describe(connection.login(), cause);
        endReason = description != null ? description
                : String.valueOf(cause.getMessage() == null ? cause : cause.getMessage());
        opened.completeExceptionally(cause);
        context.close();
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
        ended();
    }

    /** Also called when the connection attempt itself failed. */
    @Override
    public void handlerRemoved(ChannelHandlerContext context) {
        ended();
    }

    private BrokerException end() {
        return new BrokerException("broker " + connection.login() + ": " + endReason, false);
    }

    private void ended() {
        if (keepAlive != null) {
            keepAlive.cancel(false);
        }
        BrokerException end = end();
        if (connected) { // an attempt that fails says why itself, perhaps after this
            opened.completeExceptionally(end);
        }
        subscribed.completeExceptionally(end);
        for (Ping ping = pings.poll(); ping != null; ping = pings.poll()) {
            ping.answered().completeExceptionally(end);
        }
        if (accepted && !closing) {
            accepted = false;
            listener.lost(connection, endReason);
        }
    }
}
