"""Reading: native files to events."""
