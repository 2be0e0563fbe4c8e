"""The nouns and the decisions: job, graph, inventory, topic, plan.  Pure, without I/O or third party."""
