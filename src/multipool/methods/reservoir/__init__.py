"""ReservoirTTA: a reservoir of models, one for each style of input that the stream has shown."""

from multipool.methods.reservoir.method import Reservoir, ReservoirConfig

__all__ = ["Reservoir", "ReservoirConfig"]
