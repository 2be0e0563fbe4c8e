package io.speck.connector;

import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;

/** The kinds of brokers whose connectors are on the class path. */
public final class Brokers {
    /** Its kind checks the names of topics where the address is not valid, so that all faults are named at once. */
    private static final BrokerAddress USUAL = BrokerAddress.parse("tcp://localhost");
    private static final List<BrokerProvider> ALL = load();

    private Brokers() {}

    private static List<BrokerProvider> load() {
        List<BrokerProvider> found = new ArrayList<>();
        // The loader of this class: a context loader may be one of another job, or of none.
        ServiceLoader.load(BrokerProvider.class, Brokers.class.getClassLoader()).forEach(found::add);
        return List.copyOf(found);
    }

    /**
     * Returns the kind of a broker.
     *
     * @param login null for a login that is not valid, which has the usual kind
     * @throws InvalidSettingException if its connector is not on the class path
     */
    public static BrokerProvider of(Login login) {
        BrokerAddress address = login == null ? USUAL : login.address();
        return ALL.stream().filter(each -> each.serves(address)).findFirst().orElseThrow(() ->
                new InvalidSettingException("there is no connector for " + address + (address.kafka()
                        ? " (put speck-kafka.jar beside the connector of the engine)" : " on the class path")));
    }

    /**
     * Returns the record of a batch, of whatever kind its broker is.
     *
     * @throws IOException if it is not a whole record of a kind whose connector is on the class path
     */
    public static RecordedBatch recorded(byte[] record) throws IOException {
        for (BrokerProvider each : ALL) {
            RecordedBatch found = each.recorded(record);
            if (found != null) {
                return found;
            }
        }
        throw new IOException("not a batch record of a broker whose connector is on the class path (" + record.length
                + " bytes; if the job has read from a Kafka broker, put speck-kafka.jar beside the connector of the"
                + " engine)");
    }

    /** Ends all connections and threads of all kinds permanently. */
    public static void stop() {
        ALL.forEach(BrokerProvider::stop);
    }
}
