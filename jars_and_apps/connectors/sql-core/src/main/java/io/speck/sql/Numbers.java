package io.speck.sql;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Numbers as texts. A double is finite and no negative zero; its text has the fewest digits that identify it. */
final class Numbers {
    private static final Pattern WHOLE = Pattern.compile(" *([+-]?\\d{1,30}) *");
    private static final Pattern DOUBLE = Pattern.compile(" *([+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d{1,9})?) *");
    private static final BigInteger LOWEST = BigInteger.valueOf(Long.MIN_VALUE);
    private static final BigInteger HIGHEST = BigInteger.valueOf(Long.MAX_VALUE);
    private static final double EXACT = 1e15; // beyond it no digit behind the point matters
    private static final int MOST_PLAIN = 18; // digits of any whole number of 64 bits

    private Numbers() {}

    /** Returns the number without a negative zero; null if it is not finite. */
    static Double finite(double number) {
        return Double.isFinite(number) ? (Double) (number + 0.0) : null;
    }

    /** Returns the number that a text of up to 18 digits is, perhaps behind a sign; null for another text. */
    static Long plain(String text) {
        int start = text.startsWith("-") || text.startsWith("+") ? 1 : 0;
        if (text.length() == start || text.length() - start > MOST_PLAIN) {
            return null;
        }
        long number = 0;
        for (int at = start; at < text.length(); at++) {
            int digit = text.charAt(at) - '0';
            if (digit < 0 || digit > 9) {
                return null;
            }
            number = 10 * number + digit;
        }
        return text.charAt(0) == '-' ? -number : number;
    }

    /** Returns the whole number that a text is, perhaps between spaces; null for another text. */
    static Long whole(String text) {
        Long plain = plain(text);
        if (plain != null) {
            return plain;
        }
        Matcher found = WHOLE.matcher(text);
        if (!found.matches()) {
            return null;
        }
        String digits = found.group(1);
        if (digits.length() <= MOST_PLAIN) {
            return Long.parseLong(digits);
        }
        BigInteger number = new BigInteger(digits.startsWith("+") ? digits.substring(1) : digits);
        return number.compareTo(LOWEST) >= 0 && number.compareTo(HIGHEST) <= 0 ? (Long) number.longValue() : null;
    }

    /** Returns the finite number that a text is, perhaps between spaces; null for another text. */
    static Double decimal(String text) {
        Long plain = plain(text);
        if (plain != null) {
            return (double) plain;
        }
        Matcher found = DOUBLE.matcher(text);
        return found.matches() ? finite(Double.parseDouble(found.group(1))) : null;
    }

    static Double rounded(double number, long digits) {
        if (Math.abs(number) >= EXACT) {
            return number;
        }
        return finite(shortest(number).setScale((int) digits, RoundingMode.HALF_UP).doubleValue());
    }

    /** Returns the text of a double: with an exponent below 0.0001 and from 1e16 on. */
    static String text(double number) {
        if (number == Math.rint(number) && Math.abs(number) < EXACT) {
            return (long) number + ".0";
        }
        BigDecimal found = shortest(number).stripTrailingZeros();
        int exponent = found.precision() - found.scale() - 1;
        if (-4 <= exponent && exponent < 16) {
            String plain = found.toPlainString();
            return plain.indexOf('.') < 0 ? plain + ".0" : plain;
        }
        String digits = found.unscaledValue().abs().toString();
        String point = digits.length() > 1 ? "." + digits.substring(1) : "";
        String power = (Math.abs(exponent) < 10 ? "0" : "") + Math.abs(exponent);
        return (number < 0 ? "-" : "") + digits.charAt(0) + point + "e" + (exponent < 0 ? "-" : "+") + power;
    }

    /**
     * Java's own text has more digits than are needed for some numbers before Java 19, and for those next to 0 at least two.
     */
    private static BigDecimal shortest(double number) {
        boolean normal = Math.abs(number) >= Double.MIN_NORMAL || number == 0;
        BigDecimal written = new BigDecimal(Double.toString(number));
        if (normal && written.precision() < 16) {
            return written;
        }
        BigDecimal exact = new BigDecimal(number);
        for (int precision = normal ? 15 : 1; precision < 17; precision++) {
            BigDecimal rounded = exact.round(new MathContext(precision, RoundingMode.HALF_EVEN));
            if (rounded.doubleValue() == number) {
                return rounded;
            }
        }
        return exact.round(new MathContext(17, RoundingMode.HALF_EVEN));
    }
}
