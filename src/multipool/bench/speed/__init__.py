"""How fast methods, memories, the guard and corruptions are, and what they are compared with."""
