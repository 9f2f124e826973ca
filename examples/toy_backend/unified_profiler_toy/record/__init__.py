"""Recording: what drives the native profiler."""
