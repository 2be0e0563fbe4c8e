package io.speck.mqtt.stamp;

import io.speck.mqtt.InvalidSettingException;

/**
 * The identity of a written message: its writer and its number. A logical message that is written again after a crash
 * carries the same stamp.
 *
 * <p>On the wire it is two MQTT 5 user properties: {@code speck-job}, and {@code speck-seq} as
 * {@code RUN/PARTITION/EPOCH/INDEX}. Messages whose two properties are equal are one message.
 *
 * @param job name of the writing job
 * @param run the lineage of the writer's checkpoint; a job that begins from an empty checkpoint has a new one
 * @param partition the writer within the job; the order of (epoch, index) holds within one partition
 * @param epoch number of the batch (or checkpoint) in the lineage
 * @param index position among the messages of this partition and epoch
 */
public record Stamp(String job, String run, int partition, long epoch, long index) {
    public static final String JOB = "speck-job";
    public static final String SEQUENCE = "speck-seq";

    /**
     * Returns the text if it is a valid name of a run.
     *
     * @throws InvalidSettingException otherwise
     */
    public static String incarnation(String text) {
        if (text.length() > 64 || !text.matches("[\\w.-]+")) {
            throw new InvalidSettingException("'" + text
                    + "' is not an incarnation (expected 1 to 64 letters, digits, '.', '_' or '-')");
        }
        return text;
    }

    public String sequence() {
        return prefix(run, partition, epoch) + index;
    }

    /** Returns the common prefix of the sequences of one partition and epoch, for writers that build many. */
    public static String prefix(String run, int partition, long epoch) {
        return run + "/" + partition + "/" + epoch + "/";
    }

    /** Parses the two properties; null if they do not hold a valid stamp. */
    public static Stamp parse(String job, String sequence) {
        if (job == null || sequence == null) {
            return null;
        }
        int third = sequence.lastIndexOf('/');
        int second = sequence.lastIndexOf('/', third - 1);
        int first = sequence.lastIndexOf('/', second - 1);
        if (first < 0) {
            return null;
        }
        try {
            return new Stamp(job, sequence.substring(0, first),
                    Integer.parseInt(sequence, first + 1, second, 10),
                    Long.parseLong(sequence, second + 1, third, 10),
                    Long.parseLong(sequence, third + 1, sequence.length(), 10));
        } catch (NumberFormatException | IndexOutOfBoundsException e) {
            return null;
        }
    }
}
