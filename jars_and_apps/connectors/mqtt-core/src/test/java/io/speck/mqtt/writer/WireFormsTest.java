package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.speck.mqtt.stamp.CompactForm.Permission;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** The forms of messages that are nearly as large as their broker permits. */
class WireFormsTest {
    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static int size(OutgoingMessage message, WireForm form) {
        ByteBuf packet = Unpooled.buffer();
        message.encode(1, false, form, packet);
        return packet.readableBytes();
    }

    /** The alias of a topic comes with the topic in its first message: that packet is larger than without. */
    @Test
    void noFormExceedsTheLimitOfTheBroker() {
        for (int payload = 0; payload < 300; payload++) {
            OutgoingMessage message = new OutgoingMessage(new Delivery(), "t", bytes("t"), new byte[payload], null,
                    bytes("j"), bytes("run/0/0/1"));
            for (int room = 0; room < 8; room++) {
                WireForms forms = new WireForms(Permission.ALL);
                forms.opened(10);
                int most = message.bytes() + room;
                assertTrue(size(message, forms.of(message, false, room)) <= most, payload + " bytes, room for " + room);
                assertTrue(size(message, forms.of(message, false, room)) <= most, "once more: " + payload);
            }
        }
    }

    @Test
    void aTopicGetsAnAliasWhereThereIsRoom() {
        OutgoingMessage message = new OutgoingMessage(new Delivery(), "topic", bytes("topic"), new byte[10], null,
                bytes("j"), bytes("run/0/0/1"));
        WireForms forms = new WireForms(Permission.ALL);
        forms.opened(10);
        assertEquals(new WireForm(null, 1, true), forms.of(message, false, 100));
        assertEquals(new WireForm(null, 1, false), forms.of(message, false, 100));
    }
}
