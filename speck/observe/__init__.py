"""What engines and brokers say: status, metrics, rates, health checks.  Nothing is changed at them."""
