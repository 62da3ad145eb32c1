"""What chains.c offers: the last two arrays are filled."""

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
