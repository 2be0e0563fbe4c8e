package io.speck.mqtt;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/** Waits for a condition, with a generous bound that only a failure reaches. */
public final class Await {
    private static final long BOUND_NANOS = TimeUnit.MINUTES.toNanos(3);

    private Await() {}

    public static void until(String what, Callable<Boolean> condition) {
        long deadline = System.nanoTime() + BOUND_NANOS;
        try {
            while (!condition.call()) {
                if (System.nanoTime() > deadline) {
                    throw new AssertionError("not within three minutes: " + what);
                }
                Thread.sleep(5);
            }
        } catch (Exception e) {
            throw new AssertionError(what, e);
        }
    }
}
