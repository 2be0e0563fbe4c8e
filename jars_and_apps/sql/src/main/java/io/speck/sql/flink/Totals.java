package io.speck.sql.flink;

import io.speck.sql.Merge;
import io.speck.sql.SqlProgram;
import java.util.List;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.types.Row;

/** The totals of the aggregate functions of a query. */
final class Totals implements AggregateFunction<Row, Row, Row> {
    private static final long serialVersionUID = 1L;

    private final String text;
    private transient SqlProgram.Windows windows;

    Totals(String program) {
        text = program;
    }

    private List<Merge> merges() {
        windows = windows == null ? SqlProgram.of(text).windows() : windows;
        return windows.merges();
    }

    @Override
    public Row createAccumulator() {
        List<Merge> merges = merges();
        Row totals = new Row(merges.size());
        for (int at = 0; at < merges.size(); at++) {
            totals.setField(at, merges.get(at).begin());
        }
        return totals;
    }

    @Override
    public Row add(Row row, Row totals) {
        List<Merge> merges = merges();
        int first = row.getArity() - merges.size();
        for (int at = 0; at < merges.size(); at++) {
            totals.setField(at, merges.get(at).with(totals.getField(at), row.getField(first + at)));
        }
        return totals;
    }

    @Override
    public Row getResult(Row totals) {
        return Row.copy(totals);
    }

    @Override
    public Row merge(Row one, Row other) {
        List<Merge> merges = merges();
        for (int at = 0; at < merges.size(); at++) {
            one.setField(at, merges.get(at).merged(one.getField(at), other.getField(at)));
        }
        return one;
    }
}
