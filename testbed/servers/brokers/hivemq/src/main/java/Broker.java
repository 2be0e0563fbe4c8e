import com.hivemq.configuration.service.InternalConfigurations;
import com.hivemq.embedded.EmbeddedHiveMQ;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** HiveMQ CE on loopback, for interoperability tests: {@code Broker PORT DIRECTORY}. */
public final class Broker {
  private static final String CONFIGURATION =
      "<hivemq><listeners><tcp-listener><port>%s</port><bind-address>127.0.0.1</bind-address>"
          + "</tcp-listener></listeners>"
          + "<anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics></hivemq>";

  private Broker() {}

  public static void main(final String[] arguments) throws IOException, InterruptedException {
    final Path home = Path.of(arguments[1]);
    final Path configuration = Files.createDirectories(home.resolve("conf"));
    Files.writeString(configuration.resolve("config.xml"), CONFIGURATION.formatted(arguments[0]));
    // As a freshly installed one with its extension that allows all.
    InternalConfigurations.AUTH_DENY_UNAUTHENTICATED_CONNECTIONS.set(false);
    EmbeddedHiveMQ.builder()
        .withConfigurationFolder(configuration)
        .withDataFolder(Files.createDirectories(home.resolve("data")))
        .withExtensionsFolder(Files.createDirectories(home.resolve("extensions")))
        .build()
        .start()
        .join();
    Thread.currentThread().join();
  }
}
