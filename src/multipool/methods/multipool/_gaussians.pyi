"""What gaussians.c offers: the last three arrays are filled."""

VERSION: int

def fit(
    points: object, starts: object, means: object, shares: object, likelihoods: object, /
) -> None: ...
