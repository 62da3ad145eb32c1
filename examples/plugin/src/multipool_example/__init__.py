"""A method and a memory that multipool finds by name."""
