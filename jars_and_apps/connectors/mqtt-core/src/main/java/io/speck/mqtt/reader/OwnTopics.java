package io.speck.mqtt.reader;

import io.speck.connector.reader.KnownWriters;
import io.speck.mqtt.SourceSettings;
import java.util.ArrayList;
import java.util.List;

/**
 * The topics that SpecK itself writes at a broker: records, marks, requests and probes.
 *
 * <p>A filter such as {@code #} matches them, and they are no input of a job: they are acknowledged and not returned. A
 * filter that begins with {@code speck/} is meant for them, as those of the parts of a split or of a query are.
 */
final class OwnTopics {
    private static final String ALL = "speck/";
    private static final List<String> PREFIXES = List.of("speck/fence/", "speck/session/", "speck/sink/", "speck/again/",
            "speck/drained/", "speck/probe/", "speck/split/", "speck/sql/");

    private OwnTopics() {}

    /** Returns the filters of a session: the job's topic, and those at which SpecK addresses its reader. */
    static List<String> filters(SourceSettings settings) {
        if (settings.topic() == null) {
            return List.of();
        }
        List<String> filters = new ArrayList<>(List.of(settings.topic()));
        if (settings.fenceTopic() != null) {
            filters.addAll(List.of(Drain.topic(settings), KnownWriters.topic(settings)));
        }
        if (settings.controlTopic() != null) {
            filters.add(settings.controlTopic());
        }
        return filters;
    }

    /** True for a topic of SpecK's that a job's filter matches by its wildcards only. */
    static boolean isMatchedByChance(String topic, SourceSettings settings) {
        return topic.startsWith(ALL) && settings.topic() != null && !settings.topic().startsWith(ALL)
                && PREFIXES.stream().anyMatch(topic::startsWith);
    }
}
