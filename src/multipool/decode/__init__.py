"""The sequence decoder: neighbours in a stream often share a class, and logits can be read so.

Pure and small: it takes logits and gives log posteriors, and knows no model and no method.
"""

from multipool.decode.bias import Said
from multipool.decode.decoder import SequenceDecoder
from multipool.decode.state import State

DECODERS = ("none", "sequence")

__all__ = ["DECODERS", "Said", "SequenceDecoder", "State"]
