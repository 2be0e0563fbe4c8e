package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayInputStream;
import java.io.ObjectInputStream;
import java.time.Duration;
import java.util.Base64;
import org.junit.jupiter.api.Test;

/**
 * Reads settings as Flink stores them: a highly available cluster keeps the graph of a running job in Java's serialized
 * form, so the names of these classes and of their fields outlive a release.
 */
class StoredFormTest {
    private static final String SOURCE = "rO0ABXNyABxpby5zcGVjay5tcXR0LlNvdXJjZVNldHRpbmdzAAAAAAAAAAACAAlKAAdhdHRlbXB0SgALYnVmZmVyQnl0ZXNaAA5m"
            + "YWlsT25EYXRhTG9zc0kADnJlY2VpdmVNYXhpbXVtTAAIY2xpZW50SWR0ABJMamF2YS9sYW5nL1N0cmluZztMAA5jb25uZWN0VGlt"
            + "ZW91dHQAFExqYXZhL3RpbWUvRHVyYXRpb247TAAKZmVuY2VUb3BpY3EAfgABTAAFbG9naW50ABVMaW8vc3BlY2svbXF0dC9Mb2dp"
            + "bjtMAAV0b3BpY3EAfgABeHAAAAAAAAAABwAAAAAAEAAAAAAAAGR0AAZjbGllbnRzcgANamF2YS50aW1lLlNlcpVdhLobIkiyDAAA"
            + "eHB3DQEAAAAAAAAAHgAAAAB4dAAFZmVuY2VzcgATaW8uc3BlY2subXF0dC5Mb2dpbgAAAAAAAAACAgAETAAHYWRkcmVzc3QAHUxp"
            + "by9zcGVjay9tcXR0L0Jyb2tlckFkZHJlc3M7TAAIcGFzc3dvcmR0ABhMaW8vc3BlY2svbXF0dC9QYXNzd29yZDtMAAN0bHN0ABhM"
            + "aW8vc3BlY2svbXF0dC9UbHNGaWxlcztMAAh1c2VybmFtZXEAfgABeHBzcgAbaW8uc3BlY2subXF0dC5Ccm9rZXJBZGRyZXNzAAAA"
            + "AAAAAAACAANJAARwb3J0WgADdGxzTAAEaG9zdHEAfgABeHAAACK0AXQAAWhzcgAWaW8uc3BlY2subXF0dC5QYXNzd29yZAAAAAAA"
            + "AAABAgACTAAEZmlsZXEAfgABTAAEdGV4dHEAfgABeHB0AAkvcGFzc3dvcmRwc3IAFmlvLnNwZWNrLm1xdHQuVGxzRmlsZXMAAAAA"
            + "AAAAAAIAA0wABmNhRmlsZXEAfgABTAAPY2VydGlmaWNhdGVGaWxlcQB+AAFMAAdrZXlGaWxlcQB+AAF4cHQABy9jYS5wZW10AAcv"
            + "bWUucGVtdAAHL21lLmtleXQABHVzZXJ0AARpbi8j";
    private static final String SINK = "rO0ABXNyABppby5zcGVjay5tcXR0LlNpbmtTZXR0aW5ncwAAAAAAAAAAAgACTAAMZmx1c2hUaW1lb3V0dAAUTGphdmEvdGltZS9E"
            + "dXJhdGlvbjtMAAVsb2dpbnQAFUxpby9zcGVjay9tcXR0L0xvZ2luO3hwc3IADWphdmEudGltZS5TZXKVXYS6GyJIsgwAAHhwdw0B"
            + "AAAAAAAAADwAAAAAeHNyABNpby5zcGVjay5tcXR0LkxvZ2luAAAAAAAAAAICAARMAAdhZGRyZXNzdAAdTGlvL3NwZWNrL21xdHQv"
            + "QnJva2VyQWRkcmVzcztMAAhwYXNzd29yZHQAGExpby9zcGVjay9tcXR0L1Bhc3N3b3JkO0wAA3Rsc3QAGExpby9zcGVjay9tcXR0"
            + "L1Rsc0ZpbGVzO0wACHVzZXJuYW1ldAASTGphdmEvbGFuZy9TdHJpbmc7eHBzcgAbaW8uc3BlY2subXF0dC5Ccm9rZXJBZGRyZXNz"
            + "AAAAAAAAAAACAANJAARwb3J0WgADdGxzTAAEaG9zdHEAfgAKeHAAAAdbAHQAAWhzcgAWaW8uc3BlY2subXF0dC5QYXNzd29yZAAA"
            + "AAAAAAABAgACTAAEZmlsZXEAfgAKTAAEdGV4dHEAfgAKeHBwdAAGc2VjcmV0c3IAFmlvLnNwZWNrLm1xdHQuVGxzRmlsZXMAAAAA"
            + "AAAAAAIAA0wABmNhRmlsZXEAfgAKTAAPY2VydGlmaWNhdGVGaWxlcQB+AApMAAdrZXlGaWxlcQB+AAp4cHBwcHQABHVzZXI=";

    private static Object read(String stored) throws Exception {
        byte[] bytes = Base64.getDecoder().decode(stored);
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return in.readObject();
        }
    }

    @Test
    void sourceSettingsAreReadBack() throws Exception {
        Login login = new Login(BrokerAddress.parse("mqtts://h:8884"), "user", Password.in("/password"),
                new TlsFiles("/ca.pem", "/me.pem", "/me.key"));
        assertEquals(new SourceSettings(login, "client", "in/#", 100, 1 << 20, "fence", 7, false, Duration.ofSeconds(30)),
                read(SOURCE));
    }

    @Test
    void sinkSettingsAreReadBack() throws Exception {
        Login login = new Login(BrokerAddress.parse("tcp://h"), "user", Password.of("secret"), TlsFiles.NONE);
        assertEquals(new SinkSettings(login, Duration.ofSeconds(60)), read(SINK));
    }
}
