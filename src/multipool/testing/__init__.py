"""The contract tests that multipool runs itself, for methods and memories from anywhere.

``check_method(cls)`` and ``check_memory(cls)`` put a class through every promise that an adapter or
a bank makes to its users, and raise a :class:`ContractError` of one sentence at the first one that
is broken. They need no test framework: call them in a test of your own, or once by hand. The
single checks are in ``METHOD_CHECKS`` and ``MEMORY_CHECKS``, by the sentence that they check.
"""

from multipool.testing.contract import ContractError
from multipool.testing.memories import MEMORY_CHECKS, check_memory
from multipool.testing.methods import METHOD_CHECKS, MethodCase, check_method
from multipool.testing.subjects import TinyNet, random_images, source_batches, tiny_net

__all__ = [
    "MEMORY_CHECKS",
    "METHOD_CHECKS",
    "ContractError",
    "MethodCase",
    "TinyNet",
    "check_memory",
    "check_method",
    "random_images",
    "source_batches",
    "tiny_net",
]
