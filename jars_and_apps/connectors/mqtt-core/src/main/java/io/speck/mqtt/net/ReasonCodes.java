package io.speck.mqtt.net;

import io.netty.handler.codec.mqtt.MqttConnectReturnCode;
import java.util.Locale;

/** Texts of reason codes (MQTT 5, 2.4). */
public final class ReasonCodes {
    static final int TAKEN_OVER = 0x8E;
    private static final int PACKET_TOO_LARGE = 0x95;
    private static final int PAYLOAD_FORMAT_INVALID = 0x99;

    private ReasonCodes() {}

    static String connect(MqttConnectReturnCode code) {
        String name = code.name().replace("CONNECTION_REFUSED_", "").replace('_', ' ').toLowerCase(Locale.ROOT);
        return name + String.format(" (reason 0x%02x)", code.byteValue() & 0xFF);
    }

    /**
     * True if a rejection of a PUBLISH concerns this message alone (MQTT 5, 3.4.2.1). All others may concern its whole
     * topic or pass by themselves: a missing right, a quota, or no reason at all.
     */
    public static boolean concernsMessage(int reason) {
        return reason == PACKET_TOO_LARGE || reason == PAYLOAD_FORMAT_INVALID;
    }

    public static String text(int reason) {
        String name = switch (reason) {
            case TAKEN_OVER -> "session taken over";
            case 0x80 -> "unspecified error";
            case 0x83 -> "implementation specific error";
            case 0x87 -> "not authorized";
            case 0x8B -> "server shutting down";
            case 0x8D -> "keep alive time-out";
            case 0x8F -> "topic filter invalid";
            case 0x90 -> "topic name invalid";
            case 0x93 -> "receive maximum exceeded";
            case PACKET_TOO_LARGE -> "packet too large";
            case 0x97 -> "quota exceeded";
            case PAYLOAD_FORMAT_INVALID -> "payload format invalid";
            case 0x98 -> "administrative action";
            default -> "the broker's reason";
        };
        return String.format("%s (reason 0x%02x)", name, reason);
    }
}
