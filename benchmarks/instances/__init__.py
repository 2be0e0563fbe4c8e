"""Several readers of one shared subscription at a real Mosquitto: who gets what, when and how often."""
