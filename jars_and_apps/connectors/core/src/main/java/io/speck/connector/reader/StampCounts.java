package io.speck.connector.reader;

import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps.Verdict;
import io.speck.mqtt.stamp.Stamp;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts by stamps: what was dropped and what was not. Not thread-safe; guarded by the reader's lock. */
public final class StampCounts {
    private static final Logger LOG = LoggerFactory.getLogger(StampCounts.class);
    public static final int MAXIMUM_RUNS = 16;
    public static final String OTHER_RUNS = "others";
    private static final int MAXIMUM_LOGGED = 1000;

    private final SourceSettings settings;
    private final Map<String, Long> droppedByRun = new LinkedHashMap<>(16, 0.75f, true);
    private final Set<String> logged = new HashSet<>();
    private long dropped;
    private long collisions;
    private long changed;
    private long bad;

    public StampCounts(SourceSettings settings) {
        this.settings = settings;
    }

    /** Counts a message whose stamp is none, or is not believed. */
    public void addBad() {
        bad++;
    }

    /**
     * Counts the verdict on a stamp; true if its message is to be dropped.
     *
     * <p>Another content under a derived stamp is the same output in another form, as the stamp says from which message
     * it comes. It is another message if that has another content: its position came again. So it is under a counted
     * stamp, whose writer went on counting from an older state.
     */
    public boolean drops(Stamp stamp, Verdict verdict) {
        if (verdict == Verdict.NEW) {
            return false;
        }
        if (verdict == Verdict.REPETITION) {
            addDropped(stamp);
            return true;
        }
        boolean drops = verdict == Verdict.CHANGED;
        logOnce(stamp, drops);
        collisions += drops ? 0 : 1;
        changed += drops ? 1 : 0;
        return drops;
    }

    private void addDropped(Stamp stamp) {
        dropped++;
        droppedByRun.merge(stamp.job() + "/" + stamp.run(), 1L, Long::sum);
        if (droppedByRun.size() > MAXIMUM_RUNS + (droppedByRun.containsKey(OTHER_RUNS) ? 1 : 0)) {
            String eldest = droppedByRun.keySet().stream().filter(each -> !each.equals(OTHER_RUNS)).findFirst()
                    .orElseThrow();
            droppedByRun.merge(OTHER_RUNS, droppedByRun.remove(eldest), Long::sum);
        }
    }

    private void logOnce(Stamp stamp, boolean drops) {
        String stream = stamp.run() + "/" + stamp.partition() + (stamp.derived() ? " (path " + stamp.path() + ")" : "");
        if (logged.size() < MAXIMUM_LOGGED && logged.add(stamp.job() + " " + stream)) {
            LOG.warn("{}: job '{}' wrote another content under the stamp {} that was received before, in its stream {};"
                    + " {}", settings.session(), stamp.job(), stamp.sequence(), stream, drops
                    ? "the same output in another form is dropped" : "both are returned as messages of their own");
        }
    }

    public long dropped() {
        return dropped;
    }

    public long collisions() {
        return collisions;
    }

    public long changed() {
        return changed;
    }

    public long bad() {
        return bad;
    }

    public Map<String, Long> droppedByRun() {
        return Map.copyOf(droppedByRun);
    }
}
