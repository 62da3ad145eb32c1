"""The method of our own: pools, each with a bank and statistics of its own.

``rules`` and ``split`` are small functions of arrays, ``pools`` what is known of each pool,
``router`` says which one an image belongs to, ``statistics`` how a pool normalises, ``accounts``
and ``events`` what is counted, and ``method`` joins them.
"""

from multipool.methods.multipool.accounts import PoolInfo
from multipool.methods.multipool.config import MultiPoolConfig
from multipool.methods.multipool.method import MultiPool

__all__ = ["MultiPool", "MultiPoolConfig", "PoolInfo"]
