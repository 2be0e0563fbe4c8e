package io.speck.flink.jobs;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The totals of one window, kept by Flink, which is why its fields are public. */
public final class WindowTotals {
    /** Three readings of a segment, and one repeated, fall into a quarter of an hour. */
    static final int READINGS_PER_SEGMENT = 4;
    private static final int DECIMALS = 2;

    public long readings;
    public BigInteger vehicles = BigInteger.ZERO;
    public double speeds;
    public long speedCount;
    /** The readings with the lowest speed, lowest first, those of one speed by their segment. */
    public double[] slowestSpeeds = {};
    public String[] slowestSegments = {};
    /** The number of the last reading that fell into the window, counted over all windows. */
    public long version;

    /** @param slowest how many segments are to be named */
    void add(Reading reading, int slowest) {
        readings++;
        vehicles = vehicles.add(reading.vehicles());
        if (reading.sawVehicles()) {
            speeds += reading.speed();
            speedCount++;
            addSpeed(reading.speed(), reading.segment(), slowest * READINGS_PER_SEGMENT);
        }
    }

    private void addSpeed(double speed, String segment, int most) {
        int place = slowestSpeeds.length;
        while (place > 0 && slower(speed, segment, place - 1)) {
            place--;
        }
        if (place >= most) {
            return;
        }
        int count = Math.min(most, slowestSpeeds.length + 1);
        double[] speedsNow = Arrays.copyOf(slowestSpeeds, count);
        String[] segmentsNow = Arrays.copyOf(slowestSegments, count);
        System.arraycopy(slowestSpeeds, place, speedsNow, place + 1, count - place - 1);
        System.arraycopy(slowestSegments, place, segmentsNow, place + 1, count - place - 1);
        speedsNow[place] = speed;
        segmentsNow[place] = segment;
        slowestSpeeds = speedsNow;
        slowestSegments = segmentsNow;
    }

    private boolean slower(double speed, String segment, int than) {
        int order = Double.compare(speed, slowestSpeeds[than]);
        return order < 0 || order == 0 && segment.compareTo(slowestSegments[than]) < 0;
    }

    /** Rounded half up from its shortest decimal form, as Spark does; null when no vehicle was seen. */
    Double meanSpeed() {
        return speedCount == 0 ? null
                : BigDecimal.valueOf(speeds / speedCount).setScale(DECIMALS, RoundingMode.HALF_UP).doubleValue();
    }

    List<String> slowest(int most) {
        return IntStream.range(0, slowestSegments.length).mapToObj(each -> slowestSegments[each]).distinct().limit(most)
                .collect(Collectors.toList());
    }
}
