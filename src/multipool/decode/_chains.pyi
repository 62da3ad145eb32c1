"""What chains.c and order.c offer: the last arrays are filled; of ``sums`` both are written to."""

VERSION: int

def predict(
    emissions: object,
    before: object,
    slots: object,
    stay: object,
    begins: object,
    backwards: bool,
    prior: object,
    sums: object,
    /,
) -> None: ...
def sums(pair: object, found: object, /) -> None: ...
def compare(
    same: object,
    first: object,
    shares: object,
    past: int,
    strangers: int,
    fewest: int,
    unknown: int,
    scale: float,
    even: float,
    agree: float,
    match: object,
    near: object,
    terms: object,
    /,
) -> None: ...
