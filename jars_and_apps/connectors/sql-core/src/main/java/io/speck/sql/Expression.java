package io.speck.sql;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * An expression over a row, whose values are null, {@link Boolean}, {@link Long} (whole numbers, and timestamps in
 * milliseconds), {@link Double} and {@link String}. Whole numbers wrap at 64 bits; a result that is no finite number is
 * null, as is a timestamp outside of the years 1 to 9999. No expression throws.
 */
@FunctionalInterface
interface Expression {
    Object of(Object[] row);

    /** An operator whose result is null if an argument is. */
    @FunctionalInterface
    interface Operator {
        Object of(Object[] arguments);
    }

    Map<String, Operator> OPERATORS = operators();

    /** Compiles the plain form of an expression; null for none. */
    static Expression of(Object data) {
        if (data == null) {
            return null;
        }
        List<?> parts = (List<?>) data;
        String name = (String) parts.get(0);
        if (name.equals("col")) {
            int index = Integer.parseInt(((JsonParser.Number) parts.get(1)).text());
            return row -> row[index];
        }
        if (name.equals("lit")) {
            Object value = literal((String) parts.get(1), parts.get(2));
            return row -> value;
        }
        if (name.equals("like")) {
            return like(of(parts.get(1)), text(parts.get(2)), text(parts.get(3)));
        }
        List<Expression> inner = new ArrayList<>();
        for (Object each : parts.subList(1, parts.size())) {
            inner.add(of(each));
        }
        Expression[] arguments = inner.toArray(new Expression[0]);
        Operator operator = OPERATORS.get(name);
        return operator == null ? form(name, arguments) : strict(operator, arguments);
    }

    private static Object literal(String type, Object value) {
        if (value instanceof JsonParser.Number number) {
            return type.equals("double") ? (Object) Double.valueOf(number.text()) : Long.valueOf(number.text());
        }
        return value;
    }

    private static String text(Object literal) {
        return (String) ((List<?>) literal).get(2);
    }

    private static Expression like(Expression text, String pattern, String escape) {
        Texts.Pattern compiled = new Texts.Pattern(pattern, escape);
        return row -> {
            String value = (String) text.of(row);
            return value == null ? null : (Object) compiled.matches(value);
        };
    }

    private static Expression strict(Operator operator, Expression[] inner) {
        return row -> {
            Object[] values = new Object[inner.length];
            for (int at = 0; at < inner.length; at++) {
                values[at] = inner[at].of(row);
                if (values[at] == null) {
                    return null;
                }
            }
            return operator.of(values);
        };
    }

    private static Expression form(String name, Expression[] inner) {
        switch (name) {
            case "and":
                return junction(inner, false);
            case "or":
                return junction(inner, true);
            case "not":
                return row -> inner[0].of(row) instanceof Boolean value ? (Object) !value : null;
            case "is_null":
                return row -> inner[0].of(row) == null;
            case "case":
                return choice(inner);
            case "in":
                return membership(inner);
            case "coalesce":
                return row -> {
                    for (Expression each : inner) {
                        Object value = each.of(row);
                        if (value != null) {
                            return value;
                        }
                    }
                    return null;
                };
            case "nullif":
                return row -> {
                    Object value = inner[0].of(row);
                    return value != null && value.equals(inner[1].of(row)) ? null : value;
                };
            case "greatest":
                return extreme(inner, 1);
            case "least":
                return extreme(inner, -1);
            default:
                throw new IllegalArgumentException("operator '" + name + "' is not known to this connector"
                        + " (expected the connector of the server's version)");
        }
    }

    /** AND and OR: the value that decides is found, or else null if any is null. */
    private static Expression junction(Expression[] inner, boolean decides) {
        return row -> {
            Object found = !decides;
            for (Expression each : inner) {
                Object value = each.of(row);
                if (value == null) {
                    found = null;
                } else if ((Boolean) value == decides) {
                    return decides;
                }
            }
            return found;
        };
    }

    private static Expression choice(Expression[] inner) {
        return row -> {
            for (int at = 0; at + 1 < inner.length; at += 2) {
                if (Boolean.TRUE.equals(inner[at].of(row))) {
                    return inner[at + 1].of(row);
                }
            }
            return inner[inner.length - 1].of(row);
        };
    }

    private static Expression membership(Expression[] inner) {
        return row -> {
            Object value = inner[0].of(row);
            if (value == null) {
                return null;
            }
            boolean unknown = false;
            for (int at = 1; at < inner.length; at++) {
                Object each = inner[at].of(row);
                if (value.equals(each)) {
                    return true;
                }
                unknown |= each == null;
            }
            return unknown ? null : (Object) false;
        };
    }

    private static Expression extreme(Expression[] inner, int sign) {
        return row -> {
            Object found = null;
            for (Expression each : inner) {
                Object value = each.of(row);
                if (value != null && (found == null || compare(value, found) * sign > 0)) {
                    found = value;
                }
            }
            return found;
        };
    }

    /** Compares two values of one type. */
    static int compare(Object one, Object other) {
        if (one instanceof String text) {
            return Texts.compare(text, (String) other);
        }
        if (one instanceof Long number) {
            return Long.compare(number, (Long) other);
        }
        return one instanceof Double number ? Double.compare(number, (Double) other)
                : Boolean.compare((Boolean) one, (Boolean) other);
    }

    private static long whole(Object value) {
        return (Long) value;
    }

    private static double real(Object value) {
        return (Double) value;
    }

    private static String string(Object value) {
        return (String) value;
    }

    private static Map<String, Operator> operators() {
        Map<String, Operator> found = new HashMap<>();
        addWhole(found);
        addReal(found);
        addTexts(found);
        addCasts(found);
        found.put("eq", of -> of[0].equals(of[1]));
        found.put("ne", of -> !of[0].equals(of[1]));
        found.put("lt", of -> compare(of[0], of[1]) < 0);
        found.put("le", of -> compare(of[0], of[1]) <= 0);
        found.put("gt", of -> compare(of[0], of[1]) > 0);
        found.put("ge", of -> compare(of[0], of[1]) >= 0);
        return found;
    }

    private static void addWhole(Map<String, Operator> found) {
        found.put("add_l", of -> whole(of[0]) + whole(of[1]));
        found.put("sub_l", of -> whole(of[0]) - whole(of[1]));
        found.put("mul_l", of -> whole(of[0]) * whole(of[1]));
        found.put("div_l", of -> whole(of[1]) == 0 ? null : (Object) (whole(of[0]) / whole(of[1])));
        found.put("mod_l", of -> whole(of[1]) == 0 ? null : (Object) (whole(of[0]) % whole(of[1])));
        found.put("neg_l", of -> -whole(of[0]));
        found.put("abs_l", of -> Math.abs(whole(of[0])));
    }

    /** Functions are those of StrictMath, which give the same bits on every machine. */
    private static void addReal(Map<String, Operator> found) {
        found.put("add_d", of -> Numbers.finite(real(of[0]) + real(of[1])));
        found.put("sub_d", of -> Numbers.finite(real(of[0]) - real(of[1])));
        found.put("mul_d", of -> Numbers.finite(real(of[0]) * real(of[1])));
        found.put("div_d", of -> Numbers.finite(real(of[0]) / real(of[1])));
        found.put("mod_d", of -> Numbers.finite(real(of[0]) % real(of[1])));
        found.put("neg_d", of -> Numbers.finite(-real(of[0])));
        found.put("abs_d", of -> Math.abs(real(of[0])));
        found.put("floor", of -> Numbers.finite(Math.floor(real(of[0]))));
        found.put("ceil", of -> Numbers.finite(Math.ceil(real(of[0]))));
        found.put("round", of -> Numbers.rounded(real(of[0]), of.length > 1 ? whole(of[1]) : 0));
        found.put("power", of -> Numbers.finite(StrictMath.pow(real(of[0]), real(of[1]))));
        found.put("sqrt", of -> Numbers.finite(Math.sqrt(real(of[0]))));
        found.put("ln", of -> Numbers.finite(StrictMath.log(real(of[0]))));
        found.put("exp", of -> Numbers.finite(StrictMath.exp(real(of[0]))));
        found.put("sin", of -> Numbers.finite(StrictMath.sin(real(of[0]))));
        found.put("cos", of -> Numbers.finite(StrictMath.cos(real(of[0]))));
    }

    private static void addTexts(Map<String, Operator> found) {
        found.put("concat", of -> string(of[0]) + string(of[1]));
        found.put("upper", of -> string(of[0]).toUpperCase(Locale.ROOT));
        found.put("lower", of -> string(of[0]).toLowerCase(Locale.ROOT));
        found.put("trim", of -> Texts.trim(string(of[0])));
        found.put("substring",
                of -> Texts.substring(string(of[0]), whole(of[1]), of.length > 2 ? (Long) of[2] : null));
        found.put("split_part", of -> Texts.splitPart(string(of[0]), string(of[1]), whole(of[2])));
        found.put("replace", of -> string(of[1]).isEmpty() ? of[0]
                : (Object) string(of[0]).replace(string(of[1]), string(of[2])));
        found.put("position", of -> Texts.position(string(of[0]), string(of[1])));
        found.put("length", of -> Texts.length(string(of[0])));
    }

    private static void addCasts(Map<String, Operator> found) {
        found.put("double", of -> (double) whole(of[0]));
        found.put("text_b", of -> of[0].toString());
        found.put("text_l", of -> of[0].toString());
        found.put("text_d", of -> Numbers.text(real(of[0])));
        found.put("text_t", of -> Times.text(whole(of[0])));
        found.put("long_s", of -> Numbers.whole(string(of[0])));
        found.put("long_d", of -> real(of[0]) >= -0x1p63 && real(of[0]) < 0x1p63 ? (Object) (long) real(of[0]) : null);
        found.put("long_b", of -> (Boolean) of[0] ? 1L : 0L);
        found.put("long_t", of -> of[0]);
        found.put("double_s", of -> Numbers.decimal(string(of[0])));
        found.put("boolean_s", of -> bool(Texts.trim(string(of[0]))));
        found.put("time_s", of -> Times.parse(string(of[0])));
        found.put("time_l", of -> Times.inRange(whole(of[0])));
        found.put("extract", of -> Times.field(string(of[0]), whole(of[1])));
        found.put("trunc", of -> Times.truncated(string(of[0]), whole(of[1])));
    }

    /** Returns the boolean that a text is, in letters of any case; null for another text. */
    static Boolean bool(String text) {
        return switch (text.toLowerCase(Locale.ROOT)) { // by single characters, a long s would be an s
            case "true" -> true;
            case "false" -> false;
            default -> null;
        };
    }
}
