"""Results side by side: means over seeds, tables, figures, and a page that needs nothing else."""
