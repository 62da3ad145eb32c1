"""Nonsense is refused in a sentence, and nothing comes of it."""

import pytest

from .nonsense import throw


@pytest.mark.parametrize("seed", range(3))
def test_nonsense_is_refused_and_changes_nothing(tiny_net, tmp_path, seed):
    counts = throw(tiny_net, tmp_path, 150, seed)
    refused = sum(count for status, count in counts.items() if status.startswith("4"))
    assert refused > 100


@pytest.mark.slow
def test_twenty_thousand_requests_of_nonsense(tiny_net, tmp_path, record_property):
    counts = throw(tiny_net, tmp_path, 20_000, 99)
    print(dict(counts))
    assert sum(counts.values()) == 20_000
