package io.speck.flink.mqtt;

import java.io.Serializable;
import java.util.regex.Pattern;
import org.apache.flink.api.common.JobID;

/**
 * What a sink is given to name its lineage.
 *
 * @param name the user's own name for the run; null for none
 * @param origin the job whose work this one repeats from its beginning; null for none
 * @param incarnationNumber the number of the lineage's present form; 0 for none
 * @param originNumber the number of the present count of input positions; 0 for none
 */
record LineageSettings(String name, JobID origin, long incarnationNumber, long originNumber) implements Serializable {
    private static final Pattern NUMBER = Pattern.compile("\\.\\d+$");

    /** Returns a run without the number of its incarnation. */
    static String base(String run) {
        return NUMBER.matcher(run).replaceFirst("");
    }

    /** Returns the run in counted stamps. */
    String run(String base) {
        return (name == null ? base : name) + (incarnationNumber == 0 ? "" : "." + incarnationNumber);
    }

    /** Returns the run in the stamps of what comes from messages without a stamp, by the one in counted stamps. */
    String edgeRun(String run) {
        return (name == null ? base(run) : name) + (originNumber == 0 ? "" : ".o" + originNumber);
    }
}
