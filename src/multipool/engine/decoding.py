"""What the decoder makes of a batch: asked once, and moved on only by what is answered."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.decode import SequenceDecoder, State
from multipool.engine.prediction import Prediction
from multipool.ops import uncertainty
from multipool.ops.host import sent


@dataclass(frozen=True)
class _Decoded:
    """What the decoder made of logits, and the state it would leave."""

    logits: Tensor | None = None
    answer: Tensor | None = None
    on_host: Tensor | None = None  # the answer again
    state: State | None = None


class Decoding:
    """A decoder, if there is one, and what it last said ahead of time."""

    def __init__(self, decoder: SequenceDecoder | None) -> None:
        self.decoder, self._ahead = decoder, _Decoded()

    def knows(self, logits: Tensor) -> bool:
        """Tell whether just these logits have been decoded; the decoder takes finite ones only."""
        return self._ahead.logits is logits

    def look_ahead(self, prediction: Prediction) -> None:
        """Decode finite logits ``(B, L)``, best where the host has them, and stay where it is."""
        if self.decoder is not None:
            logits = prediction.logits
            answer, state = self.decoder.ahead(prediction.nearest, prediction.said)
            self._ahead = _Decoded(logits, sent(answer, logits.device), answer, state)

    def shown(self, logits: Tensor) -> tuple[Tensor, float | None]:
        """Return what the caller will get for these logits, and the estimate after them."""
        found = self._ahead
        if found.logits is not logits or found.answer is None or found.state is None:
            return logits, None
        return found.answer, found.state.estimate

    def labelled(self, prediction: Prediction) -> Prediction:
        """Return the prediction with what banks are told: the decoded label and doubt."""
        answer = self._ahead.on_host
        if answer is None or not self.knows(prediction.logits):
            return prediction
        return prediction.decoded(answer.argmax(dim=1), uncertainty(answer))

    def look(self, logits: Tensor) -> Tensor:
        """Return what a caller gets of final logits, and stay where the stream is."""
        answer = self._of(logits).answer
        return logits if answer is None else answer

    def go_on(self, logits: Tensor) -> Tensor:
        """Return what a caller gets of final logits, which the stream goes on from."""
        found = self._of(logits)
        if self.decoder is None or found.answer is None or found.state is None:
            return logits
        self.decoder.go_on(found.state)
        return found.answer

    def _of(self, logits: Tensor) -> _Decoded:
        """Return what the decoder makes of final logits, once: predicting may have asked before."""
        found, self._ahead = self._ahead, _Decoded()
        if found.logits is logits:
            return found
        if self.decoder is None or not bool(torch.isfinite(logits).all()):
            return _Decoded()
        answer, state = self.decoder.ahead(logits)
        return _Decoded(logits, answer, answer, state)
