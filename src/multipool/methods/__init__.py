"""One paper, one file: its passes, its losses and whatever it alone needs.

A method says what it keeps, how it predicts and how it learns; :mod:`multipool.engine` makes an
adapter of it. No method ever sees a label, a dataset's name, a metric or a device.
"""

from multipool.engine import Adapter
from multipool.methods.factory import adapt, load
from multipool.methods.sharing import share
from multipool.methods.table import METHODS, available, usual_memory

__all__ = ["METHODS", "Adapter", "adapt", "available", "load", "share", "usual_memory"]
