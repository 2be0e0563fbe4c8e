"""Jobs, graph, inventory, topics, plan: values and decisions, pure, without I/O or third-party packages."""
