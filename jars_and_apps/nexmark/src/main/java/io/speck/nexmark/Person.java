package io.speck.nexmark;

/** The numbers of a person's fields in its {@link Line}. */
final class Person {
    static final int ID = 2;
    static final int NAME = 3;
    static final int CITY = 6;
    static final int STATE = 7;

    private Person() {}
}
