package io.speck.mqtt.writer;

/** Matches topics against topic filters (MQTT 5, 4.7). */
final class TopicFilter {
    private TopicFilter() {}

    static boolean matches(String filter, String topic) {
        String[] filterLevels = filter.split("/", -1);
        String[] levels = topic.split("/", -1);
        boolean hidden = topic.startsWith("$") && (filterLevels[0].equals("#") || filterLevels[0].equals("+"));
        for (int i = 0; i < filterLevels.length; i++) {
            if (filterLevels[i].equals("#")) {
                return !hidden;
            }
            if (i >= levels.length || !filterLevels[i].equals("+") && !filterLevels[i].equals(levels[i])) {
                return false;
            }
        }
        return !hidden && filterLevels.length == levels.length;
    }
}
