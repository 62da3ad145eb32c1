"""The embedded dataset: 100 classes, 10 outlines times 10 fills, drawn by the package at 32 px.

``draw`` makes any number of images from a split and a seed, without a download. The class is the
outline and the fill together; colour, place, scale, rotation, lighting, background and clutter
are nuisance. ``OUTLINES`` and ``FILLS`` are the two tables that make up the classes.
"""

from multipool.data.shapes.draw import NUM_CLASSES, SIDE, SPLITS, class_names, draw
from multipool.data.shapes.fills import FILLS
from multipool.data.shapes.outlines import OUTLINES

__all__ = ["FILLS", "NUM_CLASSES", "OUTLINES", "SIDE", "SPLITS", "class_names", "draw"]
