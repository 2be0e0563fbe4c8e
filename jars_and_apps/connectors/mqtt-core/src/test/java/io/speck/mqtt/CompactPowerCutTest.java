package io.speck.mqtt;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** The same power cuts where stamps may have their binary form; a trial ({@code -Dspeck.trials=true}). */
@EnabledIfSystemProperty(named = "speck.trials", matches = "true")
class CompactPowerCutTest extends SitePowerCutTest {
    @AfterEach
    void forbid() {
        System.clearProperty(CompactWire.PROPERTY);
    }

    @Override
    void prepare(String url) throws Exception {
        System.setProperty(CompactWire.PROPERTY, "compact");
        Topic.retain(url, "speck/session/reader", "{\"topics\": [\"in/#\"], \"owner\": \"0a1b\"}");
        Topic.retain(url, "speck/fence/reader", "{\"attempt\": 1, \"owner\": \"0a1b\"}");
        Topic.retain(url, "speck/writers/reader", "{\"writers\": [\"job\"]}");
    }

    @Override
    String fence() {
        return "speck/fence/reader";
    }
}
