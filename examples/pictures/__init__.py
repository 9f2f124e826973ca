"""Makes the pictures of the documentation, from real runs and from the code itself: `make pictures`."""
