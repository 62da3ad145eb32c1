"""TODO methods."""
