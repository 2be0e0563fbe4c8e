package io.speck.spark.mqtt.sql;

import io.speck.sql.Frame;
import io.speck.sql.SqlProgram;
import io.speck.sql.Watermarks;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF4;

/**
 * The rows of a message before the windows, or the join, of a query, behind the watermark: the least progress of the inputs,
 * as far as this process has read them. A message without a row gives one that is marked as not present. It has a time all
 * the same: windows drop the rows without one, and Spark does so ahead of its watermark, which would miss their progress.
 *
 * <p>A task reads a part of a batch, so the progress is kept for the run of a query. Spark moves its watermark behind a
 * batch, so a progress may be used before the other tasks of its batch have given their rows.
 */
public final class DecodeFrame implements UDF4<String, byte[], Object, String, List<Row>> {
    private static final long serialVersionUID = 1L;
    private static final int HEAD = 2; // the watermark, and the mark of a row that is present
    private static final int MOST_RUNS = 256; // of queries in one process

    /** By the runs of queries: one that starts again reads messages anew whose progress was known. */
    private static final Map<String, Watermarks> RUNS = Collections.synchronizedMap(
            new LinkedHashMap<>(MOST_RUNS, 0.75f, true) {
                private static final long serialVersionUID = 1L;

                @Override
                protected boolean removeEldestEntry(Map.Entry<String, Watermarks> eldest) {
                    return size() > MOST_RUNS;
                }
            });

    private final NamedProgram programs = new NamedProgram();

    @Override
    public List<Row> call(String topic, byte[] value, Object program, String run) {
        SqlProgram query = programs.of(program);
        Frame frame = query.frame(topic, value);
        Watermarks watermarks = RUNS.computeIfAbsent(run, any -> query.watermarks());
        long mark;
        synchronized (watermarks) { // tasks run side by side
            watermarks.advance(frame.input(), frame.progress());
            mark = Math.max(0, watermarks.mark());
        }
        List<Row> rows = new ArrayList<>();
        for (Object[] found : query.rows(frame)) {
            Object[] row = new Object[HEAD + found.length];
            row[0] = mark;
            row[1] = true;
            System.arraycopy(found, 0, row, HEAD, found.length);
            rows.add(RowFactory.create(row));
        }
        return rows.isEmpty() ? List.of(progress(mark, query.width())) : rows;
    }

    private static Row progress(long mark, int width) {
        Object[] row = new Object[HEAD + width];
        row[0] = mark;
        row[1] = false;
        row[HEAD] = mark;
        return RowFactory.create(row);
    }
}
