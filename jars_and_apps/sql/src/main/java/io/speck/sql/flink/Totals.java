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
    /** True if rows bring totals in the place of values. */
    private transient boolean merged;

    Totals(String program) {
        text = program;
    }

    private List<Merge> merges() {
        if (windows == null) {
            windows = SqlProgram.of(text).windows();
            merged = SqlProgram.of(text).isPart();
        }
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
            Object total = totals.getField(at);
            Object value = row.getField(first + at);
            totals.setField(at, merged ? merges.get(at).merged(total, value) : merges.get(at).with(total, value));
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
