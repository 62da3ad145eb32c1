"""Corrupted copies: made once, named after all they depend on, never half-written."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from multipool.data import copies
from multipool.data.arrays import CleanSet
from multipool.data.copies import CorruptedCopies, code_version
from multipool.data.corruptions import corrupt


def clean(rng, count=6):
    images = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return CleanSet(images, np.arange(count))


def files(folder):
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def test_a_copy_is_made_once_and_then_read(tmp_path, rng, monkeypatch):
    source = clean(rng)
    made = CorruptedCopies(lambda: source, tmp_path)("contrast", 3, np.array([4, 1]))
    assert files(tmp_path) == ["contrast-3.npy"]
    monkeypatch.setattr(copies, "corrupt", None)  # would fail if it were called again
    again = CorruptedCopies(lambda: source, tmp_path)("contrast", 3, np.array([4, 1]))
    assert torch.equal(made, again)
    expected = corrupt(source.images, "contrast", severity=3, seed=0)[[4, 1]]
    np.testing.assert_array_equal(made.permute(0, 2, 3, 1).numpy(), expected)


def test_other_images_seeds_and_code_have_other_names(tmp_path, rng, monkeypatch):
    first, second = clean(rng), clean(rng)
    places = {
        CorruptedCopies(lambda s=s: s, tmp_path, seed=n).path("fog", 5)
        for s in (first, second)
        for n in (0, 1)
    }
    assert len(places) == 4
    monkeypatch.setattr(copies, "code_version", lambda: "newcode1")
    assert CorruptedCopies(lambda: first, tmp_path).path("fog", 5) not in places
    assert code_version() == code_version()


def test_frost_from_photographs_is_kept_apart_from_drawn_frost(tmp_path, rng, monkeypatch):
    source = clean(rng)
    monkeypatch.setattr(copies, "frost_source", lambda: "drawn")
    drawn = CorruptedCopies(lambda: source, tmp_path)
    before = [drawn.path(domain, 5) for domain in ("frost", "fog")]
    monkeypatch.setattr(copies, "frost_source", lambda: "photographs")
    after = [drawn.path(domain, 5) for domain in ("frost", "fog")]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_kill_in_the_middle_leaves_no_file(tmp_path, rng, monkeypatch):
    source = clean(rng)

    def dies(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(copies.np, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        CorruptedCopies(lambda: source, tmp_path)("contrast", 5, np.array([0]))
    assert files(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_copy_is_made_again(tmp_path, rng, damage):
    source = clean(rng)
    path = CorruptedCopies(lambda: source, tmp_path).path("contrast", 5)
    good = CorruptedCopies(lambda: source, tmp_path)("contrast", 5, np.arange(6))
    path.write_bytes(path.read_bytes()[:-9] if damage is None else damage)
    again = CorruptedCopies(lambda: source, tmp_path)("contrast", 5, np.arange(6))
    assert torch.equal(good, again)


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path, rng):
    (tmp_path / "cache").write_text("a file where a folder should be")
    source = clean(rng)
    with pytest.raises(ValueError, match="cannot keep the corrupted copy .* set MULTIPOOL_CACHE"):
        CorruptedCopies(lambda: source, tmp_path / "cache")("contrast", 5, np.array([0]))
