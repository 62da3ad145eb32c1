"""A method and a memory that multipool finds by name once this package is installed."""
