"""Adapters, one method a file, over the shared blocks of ``ops`` and a bank of ``memory``.

An adapter is an ``nn.Module``: call it with images and get logits; it learns on the side. No
method ever sees a label, a dataset's name or a metric.
"""

from multipool.methods.adapter import Adapter
from multipool.methods.factory import adapt, load
from multipool.methods.table import METHODS, available

__all__ = ["METHODS", "Adapter", "adapt", "available", "load"]
