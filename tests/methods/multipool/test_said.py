"""The decoder is told what was said of the images of each pool before."""

import numpy as np
import torch

from kinds import make_kind_net
from multipool.methods import adapt
from multipool.methods.multipool.shares import evenness


def overheard(adapter):
    """Return a list that gets what the decoder is told of each batch."""
    told, ahead = [], adapter.decoder.ahead
    adapter.decoder.ahead = lambda logits, said=None: told.append(said) or ahead(logits, said)
    return told


def test_the_decoder_is_told_what_was_said_of_each_image_s_pool(tiny_net, stream):
    adapter = adapt(tiny_net, "multipool", num_classes=5, options={"again": 0.0})
    told, expected = overheard(adapter), np.zeros((16, 5))
    accounts = adapter.method.accounts
    for images in stream():
        even = np.array([evenness(few) for few in accounts.uneven])
        adapter(images)
        if accounts.events[2:].any():
            break  # pools that merge or split have tests of their own
        said, likely = told[-1], adapter.undecoded.double().softmax(dim=1).numpy()
        before = (expected * even[:, None])[said.domains]
        np.testing.assert_allclose(said.sums[said.domains], before, atol=1e-9)
        np.add.at(expected, said.domains, likely)
    assert len(told) > 3


def test_it_changes_answers_only_where_the_decoder_does(tiny_net, stream):
    plain = adapt(tiny_net, "multipool", num_classes=5)
    told = overheard(plain)
    for images in stream(3):
        answers = plain(images)
        torch.testing.assert_close(answers, plain.undecoded.log_softmax(dim=1))
    assert told[-1].sums.any()


def test_without_pools_nothing_is_told(make_images):
    adapter = adapt(make_kind_net("layernorm"), "multipool")
    told = overheard(adapter)
    adapter(make_images(8))
    assert told == [None]
