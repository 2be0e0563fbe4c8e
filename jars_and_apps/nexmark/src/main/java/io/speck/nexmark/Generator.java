package io.speck.nexmark;

import java.util.SplittableRandom;

/**
 * The events of an online auction in the proportions and distributions of Nexmark: of 50 events 1 is a person, 3 are
 * auctions and 46 bids, of about 200, 500 and 100 bytes. Half of the bids are for a hot auction, and three quarters of
 * the bids and auctions are of a hot person; the others are spread over the last 100 auctions and 1,000 persons.
 *
 * <p>An event depends on the seed and its number alone, so that each edge makes its own events, and any two runs agree.
 * Two things differ from the generator of Apache Beam. An event happens at one of several edges, by chance. And a bid is
 * never for an auction that is yet to be opened (Beam leads by up to ten), as at a real auction: the split of q4 needs it.
 *
 * @param seed of all randomness
 * @param start time of the first event, in milliseconds since 1970
 * @param rate events per second of event time, at all edges together
 */
record Generator(long seed, long start, double rate) {
    private static final int EPOCH = 50;
    private static final int PERSONS = 1;
    private static final int AUCTIONS = 3;
    private static final long FIRST_ID = 1000;
    private static final int FIRST_CATEGORY = 10;
    private static final int CATEGORIES = 5;
    private static final int HOT_BATCH = 100;
    private static final int HOT_AUCTIONS = 2;
    private static final int HOT_PERSONS = 4;
    private static final int ACTIVE_PERSONS = 1000;
    private static final int PERSON_LEAD = 10;
    private static final int OPEN_AUCTIONS = 100;
    private static final int PERSON_BYTES = 200;
    private static final int AUCTION_BYTES = 500;
    private static final int BID_BYTES = 100;
    private static final int ITEM_LETTERS = 20;
    private static final int DESCRIPTION_LETTERS = 100;
    private static final int CARD_DIGITS = 16;
    private static final String[] STATES = {"AZ", "CA", "ID", "OR", "WA", "WY"};
    private static final String[] CITIES = {"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend",
        "Redmond", "Seattle", "Kent", "Cheyenne"};
    private static final String[] FIRST_NAMES = {"Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie",
        "Sarah", "Deiter", "Walter"};
    private static final String[] LAST_NAMES = {"Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith",
        "Jones", "Noris"};

    /**
     * An event and its place.
     *
     * @param edge index of the edge at which it happens
     * @param line of the kind P, A or B
     */
    record Event(int edge, String line) {}

    /** Returns the event of a number, from 0. */
    Event event(long number, int edges) {
        SplittableRandom random = new SplittableRandom(seed * 0x9E3779B97F4A7C15L + number).split();
        int edge = random.nextInt(edges);
        int offset = (int) (number % EPOCH);
        String line = offset < PERSONS ? person(number, random)
                : offset < PERSONS + AUCTIONS ? auction(number, random) : bid(number, random);
        return new Event(edge, line);
    }

    /** Returns the time of an event in milliseconds since 1970. */
    long time(long number) {
        return start + (long) (number * 1000.0 / rate);
    }

    private String person(long number, SplittableRandom random) {
        String name = any(FIRST_NAMES, random) + " " + any(LAST_NAMES, random);
        String mail = letters(random, 7) + "@" + letters(random, 5) + ".com";
        String line = Line.of(Line.PERSON, time(number), FIRST_ID + lastPerson(number), name, mail,
                digits(random, CARD_DIGITS), any(CITIES, random), any(STATES, random));
        return filled(line, PERSON_BYTES, random);
    }

    private String auction(long number, SplittableRandom random) {
        long initial = price(random);
        long seller = random.nextInt(HOT_PERSONS) > 0 ? hot(lastPerson(number)) : activePerson(number, random);
        String line = Line.of(Line.AUCTION, time(number), FIRST_ID + lastAuction(number), letters(random, ITEM_LETTERS),
                letters(random, DESCRIPTION_LETTERS), initial, initial + price(random),
                time(number) + length(number, random), FIRST_ID + seller, FIRST_CATEGORY + random.nextInt(CATEGORIES));
        return filled(line, AUCTION_BYTES, random);
    }

    private String bid(long number, SplittableRandom random) {
        long last = lastAuction(number);
        long auction = random.nextInt(HOT_AUCTIONS) > 0 ? hot(last)
                : last - random.nextLong(Math.min(last, OPEN_AUCTIONS) + 1);
        // The second person of a batch, so that hot bidders and hot sellers are not the same.
        long bidder = random.nextInt(HOT_PERSONS) > 0 ? hot(lastPerson(number)) + 1 : activePerson(number, random);
        return filled(Line.of(Line.BID, time(number), FIRST_ID + auction, FIRST_ID + bidder, price(random)), BID_BYTES,
                random);
    }

    private static long lastPerson(long number) {
        return number / EPOCH;
    }

    private static long lastAuction(long number) {
        long offset = number % EPOCH;
        long within = offset < PERSONS ? -1 : Math.min(offset - PERSONS, AUCTIONS - 1);
        return number / EPOCH * AUCTIONS + within;
    }

    private static long hot(long last) {
        return last / HOT_BATCH * HOT_BATCH;
    }

    /** One of the last persons, or of the next few, so that persons and their auctions also come in the wrong order. */
    private static long activePerson(long number, SplittableRandom random) {
        long persons = lastPerson(number) + 1;
        long active = Math.min(persons, ACTIVE_PERSONS);
        return persons - active + random.nextLong(active + PERSON_LEAD);
    }

    /** An auction takes as long as it takes to open 100 others, on average. */
    private long length(long number, SplittableRandom random) {
        long horizon = time(number + (long) OPEN_AUCTIONS * EPOCH / AUCTIONS) - time(number);
        return 1 + random.nextLong(Math.max(2 * horizon, 1));
    }

    private static long price(SplittableRandom random) {
        return Math.round(Math.pow(10, random.nextDouble() * 6) * 100);
    }

    private static String any(String[] words, SplittableRandom random) {
        return words[random.nextInt(words.length)];
    }

    /** Appends a last field, so that the line has the given length or up to a fifth more or less. */
    private static String filled(String line, int bytes, SplittableRandom random) {
        int wanted = bytes - bytes / 5 + random.nextInt(2 * bytes / 5 + 1);
        return line + "," + letters(random, Math.max(0, wanted - line.length() - 1));
    }

    private static String letters(SplittableRandom random, int count) {
        return text(random, 'a', 26, count);
    }

    private static String digits(SplittableRandom random, int count) {
        return text(random, '0', 10, count);
    }

    private static String text(SplittableRandom random, char first, int kinds, int count) {
        StringBuilder text = new StringBuilder(count);
        for (int each = 0; each < count; each++) {
            text.append((char) (first + random.nextInt(kinds)));
        }
        return text.toString();
    }
}
