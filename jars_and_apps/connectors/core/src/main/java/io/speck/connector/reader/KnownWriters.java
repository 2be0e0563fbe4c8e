package io.speck.connector.reader;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.Stamp;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The jobs whose stamps a reader believes, so that no other publisher makes it drop what a job writes.
 *
 * <p>A coordinator names them in a retained message, {@code {"writers": ["job", ...]}} at
 * {@code speck/writers/<session>}. A reader looks it up as it opens. The session is subscribed to it too, so a new list
 * is in force for the messages that were published after it; the last one is recorded with each batch, for a broker that
 * forgets. Without a list, or after an empty message, all stamps are believed.
 */
public final class KnownWriters {
    private static final Logger LOG = LoggerFactory.getLogger(KnownWriters.class);
    private static final String LISTS = "speck/writers/";
    private static final Pattern LIST = Pattern.compile("\"writers\"\\s*:\\s*\\[([^\\]]*)]");
    private static final int NO_LIST = -1;

    /** Null if all are believed. */
    private final Set<String> jobs;

    private KnownWriters(Set<String> jobs) {
        this.jobs = jobs;
    }

    public static KnownWriters all() {
        return new KnownWriters(null);
    }

    public static String topic(SourceSettings settings) {
        return LISTS + settings.clientId();
    }

    /** True for the lists of any session, since a filter may match those of others. */
    public static boolean isList(String topic) {
        return topic.startsWith(LISTS);
    }

    public boolean believes(Stamp stamp) {
        return jobs == null || jobs.contains(stamp.job());
    }

    /** Returns the writers that a list names; the present ones, with a line in the log, if it is none. */
    public KnownWriters updated(byte[] list, SourceSettings settings) {
        if (list.length == 0) {
            return all();
        }
        String text = new String(list, StandardCharsets.UTF_8);
        Set<String> named = parse(text);
        if (named == null) {
            LOG.warn("{}: the message at '{}' is '{}' (expected {\"writers\": [\"job\", ...]}); the former list stays",
                    settings.session(), topic(settings), text.length() > 200 ? text.substring(0, 200) + "..." : text);
            return this;
        }
        return new KnownWriters(named);
    }

    /** True if this is a list, whose names stand for themselves in the binary form of stamps ({@link CompactForm}). */
    boolean resolves() {
        return jobs != null && jobs.stream().map(CompactForm::hash).distinct().count() == jobs.size();
    }

    /** Enters the names by the hashes that stand for them; an empty name for a hash of several. */
    void enter(Map<Integer, String> names) {
        for (String job : jobs == null ? Set.<String>of() : jobs) {
            names.merge(CompactForm.hash(job), job, (one, other) -> one.equals(other) ? one : "");
        }
    }

    /** Returns these and the writers of an earlier list; these, if it believed all. */
    KnownWriters and(KnownWriters earlier) {
        if (jobs == null || earlier.jobs == null) {
            return this;
        }
        Set<String> both = new TreeSet<>(earlier.jobs);
        both.addAll(jobs);
        return new KnownWriters(both);
    }

    /** The list of writers at the broker. */
    public interface Lookup {
        /**
         * Returns the content of the list; null if there is none.
         *
         * @throws BrokerException if the broker cannot be reached in time, or refuses
         */
        String read() throws InterruptedException;
    }

    /**
     * Returns the writers that the list at the broker names now; the present ones if there is none, or it may not be read.
     *
     * @throws BrokerException if the broker cannot be reached in time
     */
    public KnownWriters lookedUp(Lookup lookup, SourceSettings settings) throws InterruptedException {
        if (settings.fenceTopic() == null) {
            return this;
        }
        try {
            String list = lookup.read();
            return list == null ? this : updated(list.getBytes(StandardCharsets.UTF_8), settings);
        } catch (BrokerException e) {
            if (!e.refused()) {
                throw e;
            }
            LOG.warn("{}: the list of writers cannot be read: {}", settings.session(), e.getMessage());
            return this;
        }
    }

    private static Set<String> parse(String text) {
        Matcher matcher = LIST.matcher(text);
        if (!matcher.find()) {
            return null;
        }
        Set<String> named = new TreeSet<>();
        for (String each : matcher.group(1).isBlank() ? new String[0] : matcher.group(1).split(",", -1)) {
            String quoted = each.strip();
            boolean string = quoted.length() > 2 && quoted.startsWith("\"") && quoted.endsWith("\"");
            String job = string ? quoted.substring(1, quoted.length() - 1) : "";
            if (!Stamp.isName(job)) {
                return null;
            }
            named.add(job);
        }
        return named;
    }

    public void write(DataOutputStream out) throws IOException {
        out.writeInt(jobs == null ? NO_LIST : jobs.size());
        for (String job : jobs == null ? Set.<String>of() : jobs) {
            out.writeUTF(job);
        }
    }

    public static KnownWriters read(DataInputStream in) throws IOException {
        int count = in.readInt();
        Set<String> jobs = new TreeSet<>();
        for (int i = 0; i < count; i++) {
            jobs.add(in.readUTF());
        }
        return count == NO_LIST ? all() : new KnownWriters(jobs);
    }
}
