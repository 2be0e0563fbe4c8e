package io.speck.mqtt.writer;

import io.speck.mqtt.net.Runtime;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks from time to time for messages on disk that were written under an address or user which is not used any more: those
 * of a broker that this process writes to, as its marks show, are taken over; others are named in the log.
 */
final class StrandedSpools {
    private static final Logger LOG = LoggerFactory.getLogger(StrandedSpools.class);
    private static final long FIRST_MINUTES = 1;
    private static final long PERIOD_MINUTES = 10;
    /** The roots of this process, and the folders that the log has named. */
    private static final Set<Path> WATCHED = ConcurrentHashMap.newKeySet();
    private static final Set<Path> NAMED = ConcurrentHashMap.newKeySet();

    private StrandedSpools() {}

    /** Looks for folders below a root, from a minute from now on. */
    static void watch(Path root) {
        if (WATCHED.add(root)) {
            lookLater(root, FIRST_MINUTES, false);
        }
    }

    private static void lookLater(Path root, long minutes, boolean names) {
        try {
            Runtime.LOOPS.schedule(() -> Runtime.BACKGROUND.execute(() -> look(root, names)), minutes, TimeUnit.MINUTES);
        } catch (RejectedExecutionException e) {
            LOG.debug("the process is ending: {}", e.toString());
        }
    }

    private static void name(SpoolFolder.Stranded spool, Path root) {
        NAMED.add(spool.folder());
        LOG.warn("no process sends the {} messages in '{}', which an earlier one wrote for the broker of that name: if its"
                + " address or user has changed, move this folder into the one of the new address and user below '{}';"
                + " otherwise delete it", spool.messages(), spool.folder(), root);
    }

    /** @param names false at first, when the jobs of a site that was started may not all be up */
    private static void look(Path root, boolean names) {
        try {
            Publishers.takeOverStranded(root);
            if (names) {
                SpoolFolder.stranded(root, NAMED).forEach(each -> name(each, root));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            lookLater(root, PERIOD_MINUTES, true);
        }
    }
}
