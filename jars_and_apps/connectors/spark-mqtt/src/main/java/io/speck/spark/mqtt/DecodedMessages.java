package io.speck.spark.mqtt;

import io.speck.connector.reader.Message;
import io.speck.sql.SqlProgram;
import io.speck.sql.UnparsableMessageException;
import java.util.IdentityHashMap;
import java.util.Map;

/** The messages of a batch as rows of a SQL job's program: those that fit are decoded here, and by no task again. */
final class DecodedMessages {
    private final SqlProgram program;
    private final Map<Message, byte[]> rows = new IdentityHashMap<>();

    DecodedMessages(SqlProgram program) {
        this.program = program;
    }

    /** Decodes a message; returns the reason why it does not fit, and null for one that does. */
    String fault(Message message) {
        try {
            rows.put(message, program.decoded(message.topic(), message.payload()));
            return null;
        } catch (UnparsableMessageException e) {
            return UnparsableMessageException.class.getSimpleName() + ": " + e.getMessage();
        }
    }

    /** Returns the row of a message without a {@link #fault}. */
    byte[] row(Message message) {
        return rows.get(message);
    }
}
