package io.speck.nexmark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.util.ExceptionUtils;
import org.junit.jupiter.api.Test;

/** The limits of windows, auctions and sessions; random events are compared by the tests of the project, in Python. */
class QueriesTest {
    private static final String END = Line.progress(Line.END);

    private static List<String> ended(String... lines) {
        List<String> all = new ArrayList<>(List.of(lines));
        all.add(END);
        return all;
    }

    @Test
    void allBidsOfTheHighestPriceAreGivenAndABoundBelongsToTheNextWindow() throws Exception {
        List<String> sent = LocalQuery.run("q7", new TreeMap<>(Map.of(
                "bid/a", ended("B,0,1,1,5,x", "B,9999,1,2,7,x", "B,10000,1,1,8,x"),
                "bid/b", ended("B,3,2,1,7,y", "B,19999,1,3,2,y"))));
        assertEquals(List.of("B,3,2,1,7,y", "B,9999,1,2,7,x", "W,10000", "B,10000,1,1,8,x", "W,20000", END), sent);
    }

    @Test
    void theWatermarkWaitsForEveryTopicAndMoreTopicsAreRefused() throws Exception {
        Map<String, List<String>> topics = new TreeMap<>(Map.of("bid/a", ended("B,0,1,1,5,x"), "bid/b", List.of()));
        assertEquals(List.of(), LocalQuery.run("q7", topics));
        topics.put("bid/b", List.of("B,10000,1,1,5,x"));
        assertEquals(List.of("B,0,1,1,5,x", "W,10000"), LocalQuery.run("q7", topics));
    }

    @Test
    void anAuctionIsWonByTheHighestBidUntilItExpires() throws Exception {
        Map<String, List<String>> cut = new TreeMap<>(Map.of(
                "auctions-a", ended("A,100,1,10,200", "A,150,2,10,400"),
                "auctions-b", ended("A,100,3,11,300"),
                // The bids of a topic that is read first come before their auctions.
                "a-rising", ended("B,100,1,5", "B,200,1,6", "B,201,1,9"),
                "b-rising", ended("B,150,2,9", "B,300,3,1", "B,350,3,8")));
        List<String> winning = LocalQuery.run("q4-winning", cut);
        assertEquals(List.of("R,200,1,10,6", "R,300,3,11,1", "R,400,2,10,9", END), winning);
        assertEquals(List.of("R,200,10,6", "R,300,11,1", "R,400,10,7", END),
                LocalQuery.run("q4-average", Map.of("winning", winning)));
    }

    @Test
    void bidsAboveAllEarlierOnesOfTheirAuctionRise() throws Exception {
        assertEquals(List.of("B,1,1,5", "B,2,2,3", "B,4,1,6", END), LocalQuery.run("q4-rising", Map.of("bid/a",
                ended("B,1,1,9,5,x", "B,2,2,9,3,x", "B,3,1,9,5,x", "B,4,1,8,6,x", "B,5,2,8,1,x"))));
    }

    @Test
    void sessionsOfTwoSitesMergeWhereTheirBidsDo() throws Exception {
        Map<String, List<String>> bids = new TreeMap<>(Map.of(
                "bid/a", ended("B,0,1,7,5,x", "B,19998,1,7,5,x", "B,39997,1,7,5,x"),
                "bid/b", ended("B,9999,1,7,5,y", "B,29997,1,7,5,y")));
        Map<String, List<String>> spans = new TreeMap<>();
        for (Map.Entry<String, List<String>> each : bids.entrySet()) {
            spans.put(each.getKey(), LocalQuery.run("q11-spans", Map.of(each.getKey(), each.getValue())));
        }
        List<String> sessions = List.of("R,39996,7,4,0,39997", "R,49996,7,1,39997,49997", END);
        assertEquals(sessions, LocalQuery.run("q11", bids));
        assertEquals(sessions, LocalQuery.run("q11-sessions", spans));
    }

    @Test
    void aSessionWaitsForAllSpansOfASlide() throws Exception {
        Map<String, List<String>> bids = Map.of("bid/a", ended("B,1001,1,8,5,x", "B,10500,1,7,5,x", "B,11000,1,8,5,x"));
        List<String> sessions = List.of("R,20499,7,1,10500,20500", "R,20999,8,2,1001,21000", END);
        assertEquals(sessions, LocalQuery.run("q11", bids));
        assertEquals(sessions, LocalQuery.run("q11-sessions", Map.of("spans", LocalQuery.run("q11-spans", bids))));
    }

    @Test
    void aBidAtTheEndOfASessionBeginsAnotherOneWheneverItComes() throws Exception {
        List<String> sessions = List.of("R,9999,8,1,0,10000", "R,19999,7,1,10000,20000", "R,19999,8,1,10000,20000", END);
        assertEquals(sessions, LocalQuery.run("q11", Map.of("bid/a",
                ended("B,0,1,8,5,x", "B,10000,1,7,5,x", "B,10000,1,8,5,x"))));
        assertEquals(sessions, LocalQuery.run("q11", new TreeMap<>(Map.of("bid/a", ended("B,0,1,8,5,x"), "bid/b",
                ended("B,10000,1,7,5,x", "B,10000,1,8,5,x")))));
    }

    @Test
    void tooManyTopicsAreNamed() {
        Throwable thrown = assertThrows(Exception.class, () -> LocalQuery.run("q7",
                new TreeMap<>(Map.of("bid/a", ended(), "bid/b", ended(), "bid/c", ended())), 2));
        String fault = ExceptionUtils.stringifyException(thrown);
        assertTrue(fault.contains("argument '--streams' is 2, and messages of 3 topics came: bid/a, bid/b, bid/c"), fault);
    }
}
