package io.speck.mqtt.writer;

/** Whether a topic filter covers a topic (MQTT 5, 4.7). */
final class TopicFilter {
    private TopicFilter() {}

    static boolean covers(String filter, String topic) {
        String[] wanted = filter.split("/", -1);
        String[] levels = topic.split("/", -1);
        boolean hidden = topic.startsWith("$") && (wanted[0].equals("#") || wanted[0].equals("+"));
        for (int i = 0; i < wanted.length; i++) {
            if (wanted[i].equals("#")) {
                return !hidden;
            }
            if (i >= levels.length || !wanted[i].equals("+") && !wanted[i].equals(levels[i])) {
                return false;
            }
        }
        return !hidden && wanted.length == levels.length;
    }
}
