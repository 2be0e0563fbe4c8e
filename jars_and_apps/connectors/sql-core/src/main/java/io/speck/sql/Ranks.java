package io.speck.sql;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The places of rows among those of their window. */
final class Ranks {
    private final boolean numbered;
    private final Expression[] partition;
    private final Comparator<Object[]> order;

    Ranks(Map<?, ?> data) {
        numbered = data.get("kind").equals("row_number");
        partition = SqlProgram.expressions(data.get("partition"));
        Comparator<Object[]> found = (one, other) -> 0;
        for (Object each : (List<?>) data.get("order")) {
            List<?> parts = (List<?>) each;
            found = found.thenComparing(by(Expression.of(parts.get(0)), (Boolean) parts.get(1), (Boolean) parts.get(2)));
        }
        order = found;
    }

    private static Comparator<Object[]> by(Expression expression, boolean descending, boolean nullsFirst) {
        Comparator<Object> values = descending ? (one, other) -> Expression.compare(other, one) : Expression::compare;
        Comparator<Object> all = nullsFirst ? Comparator.nullsFirst(values) : Comparator.nullsLast(values);
        return (one, other) -> all.compare(expression.of(one), expression.of(other));
    }

    Comparator<Object[]> order() {
        return order;
    }

    /** Returns the values of a row that those have in common among which it has its place. */
    List<Object> partition(Object[] row) {
        List<Object> found = new ArrayList<>();
        for (Expression each : partition) {
            found.add(each.of(row));
        }
        return found;
    }

    /** Returns the rows of a window, each with its place behind its columns. */
    List<Object[]> ranked(List<Object[]> rows) {
        Map<List<Object>, List<Object[]>> parts = new LinkedHashMap<>();
        for (Object[] row : rows) {
            parts.computeIfAbsent(partition(row), any -> new ArrayList<>()).add(row);
        }
        List<Object[]> found = new ArrayList<>();
        parts.values().forEach(each -> number(each, found));
        return found;
    }

    private void number(List<Object[]> rows, List<Object[]> found) {
        rows.sort(order);
        long place = 0;
        for (int at = 0; at < rows.size(); at++) {
            boolean tied = !numbered && at > 0 && order.compare(rows.get(at - 1), rows.get(at)) == 0;
            place = tied ? place : at + 1;
            Object[] row = Arrays.copyOf(rows.get(at), rows.get(at).length + 1);
            row[row.length - 1] = place;
            found.add(row);
        }
    }
}
