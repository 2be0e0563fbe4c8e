package io.speck.nexmark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.nexmark.Generator.Event;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class GeneratorTest {
    private static final int EVENTS = 20_000;
    private static final Generator GENERATOR = new Generator(1, 1_000_000, 100);
    private static final List<Event> FOUND = events(GENERATOR);

    private static List<Event> events(Generator generator) {
        return LongStream.range(0, EVENTS).mapToObj(number -> generator.event(number, 2)).toList();
    }

    @Test
    void eventsAreOfTheirProportionsAndSizes() {
        Map<Character, List<String>> kinds = FOUND.stream().map(Event::line).collect(Collectors.groupingBy(Line::kind));
        Map<Character, int[]> expected = Map.of(Line.PERSON, new int[] {1, 200}, Line.AUCTION, new int[] {3, 500},
                Line.BID, new int[] {46, 100});
        expected.forEach((kind, each) -> {
            assertEquals(EVENTS / 50 * each[0], kinds.get(kind).size());
            double bytes = kinds.get(kind).stream().mapToInt(String::length).average().orElseThrow();
            assertEquals(each[1], bytes, each[1] * 0.05);
        });
    }

    @Test
    void theSeedDecidesAllEvents() {
        assertEquals(FOUND, events(GENERATOR));
        assertNotEquals(FOUND, events(new Generator(2, 1_000_000, 100)));
    }

    @Test
    void timesGrowByTheRate() {
        assertEquals(1_000_000, Line.time(FOUND.get(0).line()));
        assertEquals(1_000_000 + (EVENTS - 1) * 10L, Line.time(FOUND.get(EVENTS - 1).line()));
    }

    @Test
    void bothEdgesHaveAboutHalfOfTheEvents() {
        assertEquals(EVENTS / 2.0, FOUND.stream().filter(event -> event.edge() == 0).count(), EVENTS * 0.02);
    }

    @Test
    void bidsAreForOpenedAuctionsAndOfBothEdges() {
        Set<Long> opened = new HashSet<>();
        Map<Long, Set<Integer>> edges = new HashMap<>();
        for (Event event : FOUND) {
            if (Line.is(event.line(), Line.AUCTION)) {
                assertTrue(opened.add(Line.number(event.line(), Auction.ID)));
                assertTrue(Line.number(event.line(), Auction.EXPIRES) > Line.time(event.line()));
            } else if (Line.is(event.line(), Line.BID)) {
                long auction = Line.number(event.line(), Bid.AUCTION);
                assertTrue(opened.contains(auction), event.line());
                edges.computeIfAbsent(auction, any -> new HashSet<>()).add(event.edge());
            }
        }
        assertTrue(edges.values().stream().filter(each -> each.size() == 2).count() > edges.size() / 2);
    }
}
