"""What decide.c offers; the arrays are those of decide.h."""

VERSION: int

def take(options: tuple[object, ...], /, *rest: object) -> int: ...
