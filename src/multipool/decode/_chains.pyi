"""What chains.c offers: the last two arrays are filled; of ``sums`` both are written to."""

VERSION: int

def predict(
    emissions: object,
    heat: object,
    before: object,
    stay: object,
    lag: int,
    backwards: bool,
    prior: object,
    evidence: object,
    /,
) -> None: ...
def sums(pair: object, found: object, /) -> None: ...
