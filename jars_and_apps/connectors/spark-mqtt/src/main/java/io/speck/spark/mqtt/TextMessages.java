package io.speck.spark.mqtt;

import io.speck.connector.reader.Message;
import io.speck.mqtt.InvalidTextException;
import io.speck.mqtt.Utf8;
import java.util.List;

/** Messages whose contents a query uses as text. */
final class TextMessages {
    private TextMessages() {}

    /** Returns the messages. @throws InvalidTextException for the first whose content is not UTF-8 */
    static List<Message> checked(List<Message> messages) {
        messages.forEach(each -> check(each.payload(), each.offset(), each.topic()));
        return messages;
    }

    /** @throws InvalidTextException naming the message */
    static void check(byte[] payload, long offset, String topic) {
        String fault = Utf8.fault(payload);
        if (fault != null) {
            throw new InvalidTextException("message " + offset + " of topic '" + topic + "' is not text: " + fault
                    + " (expected UTF-8, or a job that takes the column value as BINARY)");
        }
    }

    /** The error of a message in one line. */
    static String reason(String fault) {
        return InvalidTextException.class.getSimpleName() + ": " + fault;
    }
}
