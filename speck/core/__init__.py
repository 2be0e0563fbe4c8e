"""The nouns and the decisions: job, graph, inventory, topic, plan.  Pure values, without I/O or third party."""
