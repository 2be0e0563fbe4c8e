"""Pipelines between two MQTT topics, SpecK's and others: what they lose and repeat while they are killed."""
