"""The words all rooms share: images, what a bank returns, tables, generators, safe files.

Nothing here knows about methods, datasets or experiments; everything above may use it.
"""

from multipool.core.batches import batches, is_pair
from multipool.core.files import (
    discard_parts,
    read_json,
    read_tensors,
    replacing,
    write_csv,
    write_json,
    write_tensors,
    write_text,
)
from multipool.core.generators import (
    numpy_generator,
    numpy_state,
    restore_numpy,
    torch_generator,
)
from multipool.core.images import (
    ImageSet,
    Retrieved,
    as_float,
    check_as_before,
    check_images,
    check_plain,
    check_range,
)
from multipool.core.plugins import Table
from multipool.core.registry import lookup, unknown
from multipool.core.words import brief, printable

__all__ = [
    "ImageSet",
    "Retrieved",
    "Table",
    "as_float",
    "batches",
    "brief",
    "check_as_before",
    "check_images",
    "check_plain",
    "check_range",
    "discard_parts",
    "is_pair",
    "lookup",
    "numpy_generator",
    "numpy_state",
    "printable",
    "read_json",
    "read_tensors",
    "replacing",
    "restore_numpy",
    "torch_generator",
    "unknown",
    "write_csv",
    "write_json",
    "write_tensors",
    "write_text",
]
