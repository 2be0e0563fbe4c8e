package io.speck.nexmark;

/** The projections of single events: a line, or null where it is not in the result. */
final class Selections {
    private static final int DIVISOR = 123;
    private static final long EURO_THOUSANDTHS = 908;
    private static final long THOUSAND = 1000;

    private Selections() {}

    /** q1: the bid with its price in euros (0.908 of a dollar), exact to three decimals. */
    static String euros(String line) {
        long thousandths = Math.multiplyExact(Line.number(line, Bid.PRICE), EURO_THOUSANDTHS);
        String price = thousandths / THOUSAND + "." + Long.toString(THOUSAND + thousandths % THOUSAND).substring(1);
        return Line.row(Line.time(line), Line.field(line, Bid.AUCTION), Line.field(line, Bid.BIDDER), price,
                Line.field(line, Bid.EXTRA));
    }

    /** q2: auction and price of the bids for every 123rd auction. */
    static String everyHundredTwentyThird(String line) {
        return Line.number(line, Bid.AUCTION) % DIVISOR != 0 ? null
                : Line.row(Line.time(line), Line.field(line, Bid.AUCTION), Line.field(line, Bid.PRICE));
    }
}
