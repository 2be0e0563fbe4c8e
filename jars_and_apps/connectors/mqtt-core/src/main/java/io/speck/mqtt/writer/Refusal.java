package io.speck.mqtt.writer;

import io.speck.mqtt.net.ReasonCodes;

/**
 * Why a broker does not accept a message.
 *
 * @param ofMessage true if the message is the cause, and not its topic or the state of the broker
 * @param maximumPacketBytes the limit that the message exceeds; -1 if that is not known
 */
record Refusal(String why, boolean ofMessage, long maximumPacketBytes) {
    private static final long UNKNOWN = -1;

    /** The broker has answered with a reason code (MQTT 5, 3.4.2.1). */
    static Refusal by(int reasonCode) {
        return new Refusal(ReasonCodes.text(reasonCode), ReasonCodes.concernsMessage(reasonCode), UNKNOWN);
    }

    /** The broker has closed the connection each time that it got the message. */
    static Refusal byEndOfConnection(String reason) {
        return new Refusal("the broker closes the connection at it (" + reason + ")", true, UNKNOWN);
    }

    /** The message is larger than the broker permits: it is not sent. */
    static Refusal tooLarge(long maximumPacketBytes) {
        return new Refusal("it is larger than the broker's maximum packet size of " + maximumPacketBytes + " bytes", true,
                maximumPacketBytes);
    }
}
