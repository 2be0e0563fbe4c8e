package io.speck.sql.flink;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/**
 * The sessions of a key. Flink's own merge windows that only touch, if the watermark has not passed yet: then the results
 * would depend on when rows come.
 */
final class SessionWindows extends EventTimeSessionWindows {
    private static final long serialVersionUID = 1L;

    SessionWindows(long gapMillis) {
        super(gapMillis);
    }

    @Override
    public void mergeWindows(Collection<TimeWindow> windows, MergeCallback<TimeWindow> callback) {
        List<TimeWindow> group = new ArrayList<>();
        TimeWindow session = null;
        for (TimeWindow each : windows.stream().sorted(Comparator.comparingLong(TimeWindow::getStart)).toList()) {
            if (session != null && each.getStart() < session.getEnd()) {
                session = session.cover(each);
            } else {
                merge(group, session, callback);
                group = new ArrayList<>();
                session = each;
            }
            group.add(each);
        }
        merge(group, session, callback);
    }

    private static void merge(List<TimeWindow> group, TimeWindow session, MergeCallback<TimeWindow> callback) {
        if (group.size() > 1) {
            callback.merge(group, session);
        }
    }
}
