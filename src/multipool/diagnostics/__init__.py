"""TODO diagnostics."""
