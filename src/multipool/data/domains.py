"""The names of the corruptions, in the order in which the paper's streams show them."""

from __future__ import annotations

from multipool.core import unknown

COMMON = (
    "motion_blur",
    "snow",
    "fog",
    "shot_noise",
    "defocus_blur",
    "contrast",
    "zoom_blur",
    "brightness",
    "frost",
    "elastic_transform",
    "glass_blur",
    "gaussian_noise",
    "pixelate",
    "jpeg_compression",
    "impulse_noise",
)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
SEVERITIES = (1, 2, 3, 4, 5)


def corruptions(names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the corruptions asked for, the paper's 15 by default, or refuse an unknown one.

    >>> len(corruptions(None)), corruptions(("fog",))
    (15, ('fog',))
    """
    if names is None:
        return COMMON
    for name in names:
        if name not in COMMON + EXTRA:
            raise unknown("corruption", name, COMMON + EXTRA)
    return names
