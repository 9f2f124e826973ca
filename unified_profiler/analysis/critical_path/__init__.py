"""The critical path of steps, and predictions of step times from the same dependency graph."""
