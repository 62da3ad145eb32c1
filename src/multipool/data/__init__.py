"""Corruption generators, datasets, and the order in which a stream shows them.

``load(name, ...)`` opens a dataset of ``DATASETS``; ``Stream(dataset, StreamConfig(...))`` shows it
batch by batch in the order of one of ``PROTOCOLS``. Data never learns which method will read it.
"""

from multipool.data.corruptions import COMMON, EXTRA
from multipool.data.datasets import DATASETS, load
from multipool.data.protocol import DataOptions, Dataset, SourceImages
from multipool.data.stream import Batch, Stream
from multipool.data.stream_config import StreamConfig
from multipool.data.streams import PROTOCOLS

__all__ = [
    "COMMON",
    "DATASETS",
    "EXTRA",
    "PROTOCOLS",
    "Batch",
    "DataOptions",
    "Dataset",
    "SourceImages",
    "Stream",
    "StreamConfig",
    "load",
]
