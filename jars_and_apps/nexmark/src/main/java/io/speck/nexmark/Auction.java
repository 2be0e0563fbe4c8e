package io.speck.nexmark;

/** The numbers of an auction's fields in its {@link Line}. */
final class Auction {
    static final int ID = 2;
    static final int EXPIRES = 7;
    static final int SELLER = 8;
    static final int CATEGORY = 9;

    private Auction() {}
}
