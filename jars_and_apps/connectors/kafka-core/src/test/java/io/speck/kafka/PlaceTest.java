package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class PlaceTest {
    private static final TopicPartition PARTITION = new TopicPartition("in", 0);

    private static KafkaMessage message(long epoch, long position) {
        return new KafkaMessage(0, epoch, position, 7, "in", new byte[0], 0, null);
    }

    private static Place after(long... epochsAndPositions) {
        Place place = Place.at(Map.of());
        for (int i = 0; i < epochsAndPositions.length; i += 2) {
            place.pass(message(epochsAndPositions[i], epochsAndPositions[i + 1]));
        }
        return place;
    }

    private static Map<TopicPartition, OffsetAndMetadata> commits(Place place) {
        return place.commits(Recorded.settings("kafka://k:9092", "s"), 5);
    }

    @Test
    void aHigherEpochIsBehindALowerOneWhateverTheOffset() {
        assertEquals(Map.of(0, 30L), after(4, 29, 4, 12).offsets());
        assertEquals(Map.of(0, 28L), after(4, 29, 6, 27).offsets());
        assertEquals(Map.of(0, 28L), after(6, 27, 4, 29).offsets());
        assertEquals(Map.of(0, 28L), after(Epochs.UNKNOWN, 29, 0, 27).offsets());
    }

    /** The epochs of another topic of the same name begin at 0 again. */
    @Test
    void aTopicThatWasMadeAnewIsBehindTheFormerOne() {
        assertEquals(Map.of(0, 1L), after(4, 29, Epochs.of(Optional.of(0), 1), 0).offsets());
        assertEquals(Map.of(0, 1L), after(4, 29, Epochs.of(Optional.empty(), 1), 0).offsets());
        assertEquals(Optional.of(0), Epochs.leader(Epochs.of(Optional.of(0), 3)));
        assertEquals(Optional.empty(), Epochs.leader(Epochs.of(Optional.empty(), 3)));
    }

    /** A commit of one that there is not fails, and would be repeated for as long as the job runs. */
    @Test
    void aPlaceThatBeganAnewHasNoPartitionsOfTheFormerTopic() {
        Place place = Place.at(Map.of(0, 5L, 1, 7L));
        place.beginAnew(Map.of(0, 0L), 1);
        place.advance(1, 4, 9);
        Place copy = place.copy();
        copy.pass(new KafkaMessage(1, 4, 9, 7, "in", new byte[0], 0, null));
        assertEquals(List.of(Map.of(0, 0L), Map.of(0, 0L)), List.of(place.offsets(), copy.offsets()));
        copy.begin(List.of(0, 1));
        assertEquals(Map.of(0, 0L, 1, 0L), copy.offsets());
        copy.advance(1, Epochs.of(Optional.of(0), 1), 2);
        assertEquals(2, copy.of(1));
    }

    @Test
    void messagesOfTheFormerTopicDoNotMoveThePlaceInTheNewOne() {
        Place place = after(4, 29);
        place.beginAnew(Map.of(0, 3L, 1, 0L), 1);
        place.pass(message(4, 40));
        assertEquals(Map.of(0, 3L, 1, 0L), place.offsets());
        assertEquals(Optional.empty(), place.in(0).leaderEpoch());
        place.pass(message(Epochs.of(Optional.of(0), 1), 3));
        assertEquals(Map.of(0, 4L, 1, 0L), place.offsets());
    }

    /** They may be of a higher epoch than the message before them, whose epoch then ends before this place. */
    @Test
    void aPlaceBehindMarksOfTransactionsHasNoEpochToCompare() {
        Place place = after(4, 29);
        place.passMarks(0, 33);
        place.passMarks(0, 31);
        assertEquals(Optional.empty(), place.in(0).leaderEpoch());
        assertEquals(33, place.in(0).offset());
        place.pass(message(6, 27)); // of a log that has lost its end
        assertEquals(Optional.of(6), place.in(0).leaderEpoch());
        assertEquals(28, place.in(0).offset());
    }

    @Test
    void theEpochIsCommittedAndReadBack() {
        assertEquals(Optional.of(6), commits(after(6, 27)).get(PARTITION).leaderEpoch());
        OffsetAndMetadata found = Place.committed(commits(after(6, 27))).in(0);
        assertEquals(28, found.offset());
        assertEquals(Optional.of(6), found.leaderEpoch());
        assertEquals(Optional.empty(), commits(after(Epochs.UNKNOWN, 27)).get(PARTITION).leaderEpoch());
        assertFalse(Place.committed(commits(after(6, 27))).isEmpty());
        assertTrue(Place.committed(Map.of()).isEmpty());
    }

    @Test
    void theEpochIsRecordedAndReadBack() throws IOException {
        for (long epoch : new long[] {Epochs.UNKNOWN, 0, 6, Epochs.of(Optional.of(6), 2)}) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            after(epoch, 27).write(new DataOutputStream(bytes));
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes.toByteArray()));
            OffsetAndMetadata found = Place.read(in, true).in(0);
            assertEquals(28, found.offset());
            assertEquals(Epochs.leader(epoch), found.leaderEpoch());
        }
    }
}
