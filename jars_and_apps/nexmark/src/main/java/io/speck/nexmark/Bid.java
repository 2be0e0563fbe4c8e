package io.speck.nexmark;

/** The numbers of a bid's fields in its {@link Line}. */
final class Bid {
    static final int AUCTION = 2;
    static final int BIDDER = 3;
    static final int PRICE = 4;
    static final int EXTRA = 5;

    private Bid() {}
}
