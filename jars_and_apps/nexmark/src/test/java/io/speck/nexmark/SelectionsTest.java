package io.speck.nexmark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.InvalidSettingException;
import org.junit.jupiter.api.Test;

class SelectionsTest {
    @Test
    void eurosAreExactToThreeDecimals() {
        assertEquals("R,5,1000,1001,0.908,x", Selections.euros("B,5,1000,1001,1,x"));
        assertEquals("R,5,1000,1001,90.800,x", Selections.euros("B,5,1000,1001,100,x"));
        assertEquals("R,5,1000,1001,1121.380,x", Selections.euros("B,5,1000,1001,1235,x"));
    }

    @Test
    void oneAuctionIn123IsSelected() {
        assertEquals("R,5,1107,7", Selections.everyHundredTwentyThird("B,5,1107,1001,7,x"));
        assertNull(Selections.everyHundredTwentyThird("B,5,1108,1001,7,x"));
    }

    @Test
    void personsAndAuctionsAreSelectedAndCut() {
        String person = "P,5,1000,Kate Smith,k@x.com,1234,Boise,ID,x";
        assertEquals("P,5,1000,Kate Smith,Boise,ID", LocalItems.person(person));
        assertNull(LocalItems.person(person.replace(",ID,", ",AZ,")));
        assertEquals("P,5,1000,Kate Smith", NewUsers.person(person));
        String auction = "A,5,1002,item,what it is,100,200,9000,1000,10,x";
        assertEquals("A,5,1000,1002", LocalItems.auction(auction));
        assertNull(LocalItems.auction(auction.replace(",10,x", ",11,x")));
        assertEquals("A,5,1000", NewUsers.auction(auction));
        assertEquals("A,5,1002,10,9000", CategoryAverage.auction(auction));
    }

    @Test
    void aLineWithoutItsFieldsIsNamed() {
        String missing = assertThrows(IllegalArgumentException.class, () -> Selections.euros("B,5,1000")).getMessage();
        assertTrue(missing.contains("line 'B,5,1000' has no field 4"), missing);
        String word = assertThrows(IllegalArgumentException.class, () -> Line.time("B,soon,1000")).getMessage();
        assertTrue(word.contains("field 1 is 'soon' (expected a whole number)"), word);
    }

    @Test
    void aPartThatDoesNotExistIsNamed() {
        String[] arguments = {"--job-name", "q", "--part", "q6"};
        String fault = assertThrows(InvalidSettingException.class, () -> Query.main(arguments)).getMessage();
        assertTrue(fault.contains("argument '--part' is 'q6' (expected one of q0, q1,"), fault);
    }
}
