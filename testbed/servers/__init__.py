"""Real engines, brokers, proxies and browsers on free loopback ports."""
