package io.speck.mqtt.reader;

import io.speck.mqtt.SourceSettings;

/**
 * The control messages of a coordinator to a job, on the topic that its reader is given.
 *
 * <p>They are returned to the engine as other messages are: recorded with their batch, so that a batch that is run again
 * has the same ones.
 */
final class Control {
    private static final String TOPICS = "speck/control/";

    private Control() {}

    /**
     * True for control messages of other jobs, which a filter with wildcards may match, and for those that wait in a
     * session whose job takes none any more. They are acknowledged and not returned.
     */
    static boolean isForeign(String topic, SourceSettings settings) {
        return topic.startsWith(TOPICS) && !topic.equals(settings.controlTopic());
    }
}
