package io.speck.mqtt.net;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * A process of its own whose name server does not answer: connected to a broker by its address, it tries to reach others
 * by name, and prints what it finds.
 */
public final class HostNamesProcess {
    /** The line that is printed if the broker's answers come while names are looked up. */
    public static final String ANSWERS = "answers";
    /** The line that is printed for a name that is not found in time. */
    public static final String IN_TIME = "did not answer within 1000 ms";

    private static final int NAMES = 4;

    private HostNamesProcess() {}

    /** Takes the address of the broker. */
    public static void main(String[] arguments) throws Exception {
        Connection connection = Connection.open(Login.anonymous(arguments[0]), Session.temporary("pings"),
                new ConnectionListener() {}, Duration.ofSeconds(20));
        ExecutorService tries = Executors.newFixedThreadPool(NAMES);
        for (int i = 0; i < NAMES; i++) {
            String url = "tcp://broker-" + i + ".example:1883";
            tries.execute(() -> reach(url));
        }
        Thread.sleep(500);
        boolean answered = connection.ping().thenApply(nothing -> true)
                .completeOnTimeout(false, 5, TimeUnit.SECONDS).join();
        System.out.println(answered ? ANSWERS : "no answer");
        tries.shutdown();
        tries.awaitTermination(20, TimeUnit.SECONDS);
        System.exit(0);
    }

    private static void reach(String url) {
        try {
            Connection.open(Login.anonymous(url), Session.temporary("name"), new ConnectionListener() {},
                    Duration.ofSeconds(1));
        } catch (BrokerException | InterruptedException e) {
            System.out.println(e.getMessage());
        }
    }
}
