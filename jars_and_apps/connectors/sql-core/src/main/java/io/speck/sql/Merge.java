package io.speck.sql;

/**
 * An aggregate function.
 *
 * @param kind {@code count}, {@code sum}, {@code min} or {@code max}
 * @param type of its argument
 */
public record Merge(String kind, String type) {
    /** The type of its total: {@code bigint} for a count. */
    public String total() {
        return kind.equals("count") || type.equals("int") ? "bigint" : type;
    }

    /** Returns the total before the first value. */
    public Object begin() {
        return kind.equals("count") ? (Object) 0L : null;
    }

    /** Returns the total with one more value; null counts in none. */
    public Object with(Object total, Object value) {
        if (value == null) {
            return total;
        }
        if (kind.equals("count")) {
            return (Long) total + 1;
        }
        if (total == null) {
            return value;
        }
        if (kind.equals("sum")) {
            return value instanceof Long number ? (Object) ((Long) total + number) : (Double) total + (Double) value;
        }
        return Expression.compare(value, total) * (kind.equals("max") ? 1 : -1) > 0 ? value : total;
    }

    /** Returns two totals as one. */
    public Object merged(Object one, Object other) {
        return kind.equals("count") ? (Object) ((Long) one + (Long) other) : with(one, other);
    }

    /** Returns the total of one value. */
    Object of(Object value) {
        return with(begin(), value);
    }
}
