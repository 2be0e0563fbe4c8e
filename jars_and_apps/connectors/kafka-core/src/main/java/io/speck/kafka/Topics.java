package io.speck.kafka;

import io.speck.mqtt.InvalidSettingException;
import java.util.regex.Pattern;

/** The names of topics that jobs may read and write. */
final class Topics {
    /** The compacted topic with the coordinator's records. */
    static final String CONTROL = "speck.control";
    /** The topic of measurements of links, which nobody reads. */
    static final String PROBE = "speck.probe";

    private static final Pattern LEGAL = Pattern.compile("[A-Za-z0-9._-]{1,249}");
    private static final String RESERVED = "speck.";
    private static final String INTERNAL = "__";

    private Topics() {}

    /**
     * Returns the name if a job can use it.
     *
     * @throws InvalidSettingException otherwise
     */
    static String checked(String name) {
        boolean reserved = name.startsWith(INTERNAL) || name.startsWith(RESERVED) && !name.equals(PROBE);
        if (!LEGAL.matcher(name).matches() || name.equals(".") || name.equals("..") || reserved) {
            throw new InvalidSettingException("'" + name + "' is not a topic of Kafka (expected 1 to 249 letters, digits,"
                    + " '.', '_' and '-', not '.' or '..', and not beginning with '__' or 'speck.')");
        }
        return name;
    }
}
