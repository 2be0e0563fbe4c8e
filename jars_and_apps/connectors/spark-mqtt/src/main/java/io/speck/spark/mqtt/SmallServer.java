package io.speck.spark.mqtt;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;

/**
 * A Spark Connect server that starts without the session extensions on its class path, where {@code
 * spark.sql.extensions.test.loadFromCp} is false: Spark's own entry point loads them in any case.
 */
public final class SmallServer {
    private static final String SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer";

    private SmallServer() {}

    public static void main(String[] arguments) throws ReflectiveOperationException {
        // Spark's entry point takes the default session, if there is one.
        SparkSession.setDefaultSession(new SparkSession(SparkContext.getOrCreate()));
        // By its name, since the jar of the server is no dependency of the connector.
        Class.forName(SERVER).getMethod("main", String[].class).invoke(null, (Object) arguments);
    }
}
