package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.connector.reader.Message;
import io.speck.mqtt.stamp.Stamp;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Messages with the stamps of earlier ones. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RepeatedStampsTest extends CutReaderCase {
    @Test
    void stampedDuplicatesAreDroppedAlsoAfterARestart() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 0, "a", "a", "b");
        publish("job", 1, "a", "b", "c");
        assertEquals(List.of("a", "a", "b", "c"), Batch.next(first, 0, 4));
        first.commit(4);
        first.close();
        MqttSource second = open(4, 4);
        publish("job", 2, "b", "c", "d");
        assertEquals(List.of("d"), Batch.next(second, 4, 5));
        assertEquals(2, second.metrics().duplicatesDropped());
        second.commit(5);
        second.close();
        assertNothingLeft(5);
    }

    @Test
    void stampsOutOfOrderAreNotDropped() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 10, "k", "l");
        assertEquals(List.of("k", "l"), Batch.next(first, 0, 2));
        first.commit(2);
        first.close();
        MqttSource second = open(2, 2);
        publish("job", 8, "i", "j", "k", "l", "m");
        assertEquals(List.of("i", "j", "m"), Batch.next(second, 2, 5));
        assertEquals(Map.of("job/run", 2L), second.metrics().duplicatesByRun());
        assertEquals("job/run=2", second.metrics().runsText());
    }

    @Test
    void anotherContentUnderACountedStampIsReturnedAndCounted() throws Exception {
        MqttSource first = open(0, 0);
        publish("job", 0, "a", "b");
        assertEquals(List.of("a", "b"), Batch.next(first, 0, 2));
        first.commit(2);
        first.close();
        MqttSource second = open(2, 2);
        publish("job", 0, "a", "other", "c");
        assertEquals(List.of("other", "c"), Batch.next(second, 2, 4));
        assertEquals(1, second.metrics().collisions());
        assertEquals(1, second.metrics().duplicatesDropped());
        assertEquals(0, second.metrics().changedRepetitions());
    }

    /** Else the outputs of both would have one stamp at the next job, which would drop one as another form. */
    @Test
    void nothingIsNamedAfterAStampThatTwoMessagesHave() throws Exception {
        MqttSource first = open(0, 0);
        stamped("job", "r/0/0/5", "a");
        stamped("job", "r/0/0/5", "other");
        stamped("job", "r/0/0/6", "b");
        assertEquals(List.of("a", "other", "b"), Batch.next(first, 0, 3));
        List<Stamp> stamps = Arrays.asList(new Stamp("job", "r", 0, 0, 5), null, new Stamp("job", "r", 0, 0, 6));
        assertEquals(stamps, first.messages(0, 3).stream().map(Message::stamp).toList());
        first.close();
        MqttSource second = open(0, 3);
        second.awaitWhole();
        assertEquals(stamps, second.messages(0, 3).stream().map(Message::stamp).toList());
    }

    @Test
    void anotherContentUnderADerivedStampIsTheSameOutput() throws Exception {
        MqttSource source = open(0, 0);
        stamped("job", "r/0/0/5.0", "a");
        stamped("job", "r/0/0/5.0", "in another form");
        stamped("job", "r/0/0/5.1", "b");
        assertEquals(List.of("a", "b"), Batch.next(source, 0, 2));
        assertEquals(1, source.metrics().changedRepetitions());
        assertEquals(0, source.metrics().duplicatesDropped());
        assertEquals("r/0/0/5.1", source.messages(1, 2).get(0).stamp().sequence());
    }
}
