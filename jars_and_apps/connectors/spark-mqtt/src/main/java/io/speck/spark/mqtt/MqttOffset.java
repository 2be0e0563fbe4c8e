package io.speck.spark.mqtt;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** A position in the stream: the number of messages before it. */
final class MqttOffset extends Offset {
    private static final Pattern FORM = Pattern.compile("\\s*\\{\\s*\"offset\"\\s*:\\s*(\\d{1,18})\\s*}\\s*");

    private final long position;

    MqttOffset(long position) {
        this.position = position;
    }

    static MqttOffset parse(String json) {
        Matcher matcher = FORM.matcher(json);
        if (!matcher.matches()) {
            throw new IllegalArgumentException("'" + json + "' is not an offset of the mqtt source"
                    + " (expected {\"offset\": N}; the checkpoint may belong to another source)");
        }
        return new MqttOffset(Long.parseLong(matcher.group(1)));
    }

    long position() {
        return position;
    }

    @Override
    public String json() {
        return "{\"offset\":" + position + "}";
    }
}
