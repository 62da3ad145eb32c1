"""Logits are found in whatever a model returns, or a sentence says what it returned."""

from collections import OrderedDict
from typing import NamedTuple

import pytest
import torch

from multipool.ops.outputs import logits_of, looks_like_probabilities

LOGITS = torch.arange(10.0).view(2, 5)


class Named(NamedTuple):
    features: torch.Tensor
    logits: torch.Tensor


@pytest.mark.parametrize(
    "output",
    [
        LOGITS,
        (LOGITS, torch.zeros(2, 5)),
        [None, torch.zeros(2, 3, 4), LOGITS],
        (torch.zeros(2, 7), LOGITS),
        {"loss": None, "logits": LOGITS},
        OrderedDict(logits=LOGITS),
        Named(torch.zeros(2, 5), LOGITS),
    ],
)
def test_logits_are_found(output):
    assert logits_of(output, 2, 5) is LOGITS


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"scores": LOGITS}, "a dict with scores"),
        ({}, "a dict with nothing in it"),
        ((torch.zeros(3, 2),), r"a tuple of \(3, 2\) float32"),
        (None, "NoneType"),
        (LOGITS.long(), r"\(2, 5\) int64"),
        (torch.zeros(5), r"\(5,\) float32 for 2 images"),
        (torch.zeros(2, 5, 8, 8), r"\(2, 5, 8, 8\) float32 for 2 images"),
        ({"logits": torch.zeros(3, 5)}, r"\(3, 5\) float32 for 2 images"),
    ],
)
def test_what_holds_no_logits_is_a_sentence(output, said):
    with pytest.raises(ValueError, match=f"the model returned {said}.* expected logits .*; wrap"):
        logits_of(output, 2, 5)


def test_one_logit_is_no_classifier_and_another_number_is_named():
    with pytest.raises(ValueError, match=r"gives 1 logits .* make torch.cat"):
        logits_of(torch.zeros(2, 1), 2, 2)
    with pytest.raises(ValueError, match="pass num_classes=5"):
        logits_of(LOGITS, 2, 4)


def test_probabilities_are_told_from_logits_and_log_probabilities():
    assert looks_like_probabilities(LOGITS.softmax(1))
    assert not looks_like_probabilities(LOGITS)
    assert not looks_like_probabilities(LOGITS.log_softmax(1))
    assert not looks_like_probabilities(LOGITS.relu())
