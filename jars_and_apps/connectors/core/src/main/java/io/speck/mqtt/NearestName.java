package io.speck.mqtt;

import java.util.Collection;
import java.util.Comparator;
import java.util.Locale;

/** Suggests a known name for a mistyped one, by edit distance (Levenshtein). */
public final class NearestName {
    private NearestName() {}

    /** Returns a hint such as {@code " (did you mean 'topic'?)"}, or an empty text if no known name is near. */
    public static String hint(String name, Collection<String> known) {
        String typed = name.toLowerCase(Locale.ROOT);
        return known.stream()
                .min(Comparator.comparingInt((String each) -> distance(typed, each.toLowerCase(Locale.ROOT)))
                        .thenComparing(Comparator.naturalOrder()))
                .filter(each -> distance(typed, each.toLowerCase(Locale.ROOT)) <= Math.max(2, typed.length() / 2))
                .map(each -> " (did you mean '" + each + "'?)")
                .orElse("");
    }

    static int distance(String one, String other) {
        int[] row = new int[other.length() + 1];
        for (int j = 0; j <= other.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= one.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= other.length(); j++) {
                int above = row[j];
                int change = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
                row[j] = Math.min(change, Math.min(above, row[j - 1]) + 1);
                diagonal = above;
            }
        }
        return row[other.length()];
    }
}
