"""A job as a streaming query: user code, options, progress; the same on Connect and in a driver."""
