package io.speck.flink.jobs;

import java.math.BigInteger;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.regex.Pattern;

/**
 * A CityPulse line: {@code status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID},
 * and perhaps the site where it was taken. The grammar is that of the PySpark jobs (road_traffic/jobs.py).
 *
 * @param time microseconds since 1970, as if the local time were UTC
 * @param speed km/h
 * @param vehicles how many passed in the interval
 * @param segment the road between two measuring points
 */
record Reading(long time, double speed, BigInteger vehicles, String segment) {
    private static final String COUNT = "[0-9]{1,28}";
    private static final String MEASURE = "[0-9]{1,28}(?:\\.[0-9]{1,28})?";
    private static final String LEAP_YEAR =
            "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    private static final String MONTH_AND_DAY = "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
            + "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))";
    private static final String DATE = "(?!0000)(?:[0-9]{4}-" + MONTH_AND_DAY + "|" + LEAP_YEAR + "-02-29)";
    private static final String TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?";
    private static final String FIELDS = String.join(",", "OK", MEASURE, MEASURE, COUNT, MEASURE, DATE + "[T ]" + TIME,
            COUNT, COUNT, COUNT);
    private static final Pattern PLAIN = Pattern.compile(FIELDS);
    private static final Pattern SITED = Pattern.compile(FIELDS + "(?:,[A-Za-z0-9._-]{1,100})?");

    private static final int SPEED = 2;
    private static final int TIMESTAMP = 5;
    private static final int VEHICLES = 6;
    private static final int SEGMENT = 8;
    private static final long MICROS = 1_000_000;

    /** True if a line is what a sensor sends when all is well. */
    static boolean wellFormed(String line) {
        return PLAIN.matcher(line).matches();
    }

    /** The reading in a line, with or without its site; null for any other line. */
    static Reading parse(String line) {
        if (!SITED.matcher(line).matches()) {
            return null;
        }
        String[] fields = line.split(",");
        LocalDateTime time = LocalDateTime.parse(fields[TIMESTAMP].replace(' ', 'T'));
        return new Reading(time.toEpochSecond(ZoneOffset.UTC) * MICROS + time.getNano() / 1000,
                Double.parseDouble(fields[SPEED]), new BigInteger(fields[VEHICLES]), fields[SEGMENT]);
    }

    boolean sawVehicles() {
        return vehicles.signum() > 0;
    }
}
