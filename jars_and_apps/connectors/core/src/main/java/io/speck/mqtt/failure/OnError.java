package io.speck.mqtt.failure;

import io.speck.mqtt.InvalidSettingException;
import java.io.Serializable;
import java.util.Locale;

/**
 * The treatment of a message on which the job's code fails.
 *
 * @param treatment what becomes of it
 * @param parkTopic topic at the source broker that gets it; null unless it is parked
 * @param job name of the job in parked messages
 */
public record OnError(Treatment treatment, String parkTopic, String job) implements Serializable {
    /** The job fails, as without any treatment. */
    public static final OnError FAIL = new OnError(Treatment.FAIL, null, null);

    /** The treatment of a message on which the job's code fails. */
    public enum Treatment {
        /** The job fails. */
        FAIL,
        /** The message is left out. */
        SKIP,
        /** The message is left out and published to another topic. */
        PARK
    }

    /**
     * Reads the setting.
     *
     * @param text {@code fail}, {@code skip} or {@code park}; null for {@code fail}
     * @throws InvalidSettingException for another one, or one that does not fit the topic
     */
    public static OnError of(String text, String parkTopic, String job) {
        Treatment treatment;
        try {
            treatment = text == null ? Treatment.FAIL : Treatment.valueOf(text.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException e) {
            throw new InvalidSettingException("'" + text + "' is no treatment of errors (expected fail, skip or park)");
        }
        if (treatment == Treatment.PARK != (parkTopic != null)) {
            throw new InvalidSettingException("a topic for parked messages belongs to 'park', and 'park' needs one");
        }
        return new OnError(treatment, parkTopic, job);
    }

    public boolean fails() {
        return treatment == Treatment.FAIL;
    }
}
