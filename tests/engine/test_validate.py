"""Bad rows: answered by the source model under ``mask``, and no lesson to anybody."""

import pytest
import torch

from multipool.methods import METHODS

MEMORY_METHODS = [name for name, kind in METHODS.items() if kind.takes_memory]
CASES = [(name, None) for name in METHODS] + [(name, "mcm") for name in MEMORY_METHODS]


def spoil(images):
    bad = images.clone()
    bad[2, 0, 0, 0] = float("nan")
    bad[5, 1] = float("inf")
    bad[9, 2, 3, 3] = -float("inf")
    bad[11] *= 255
    rows = torch.zeros(len(images), dtype=torch.bool)
    rows[[2, 5, 9, 11]] = True
    return bad, rows


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize(("name", "memory"), CASES)
def test_masked_rows_get_the_sources_logits_and_teach_nothing(
    build, make_images, name, memory, guard
):
    masking = build(name, memory, bad_input="mask", guard=guard)
    spared, plain = build(name, memory, guard=guard), build("source")
    for t in range(3):
        bad, rows = spoil(make_images(44, seed=t))
        mended = torch.where(bad.isnan(), 0.5, bad).clamp(0, 1)[rows]
        assert torch.equal(masking.predict(bad)[~rows], spared.predict(bad[~rows]))
        logits = masking(bad)
        assert logits.isfinite().all()
        assert torch.equal(logits[~rows], spared(bad[~rows]))
        torch.testing.assert_close(logits[rows], plain(mended))
    first, second = masking.state_dict(), spared.state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert masking.counts["masked"] == 12


def test_a_batch_of_bad_rows_only_is_answered_and_counts_for_nothing(build, make_images):
    adapter = build("rotta", "mcm", bad_input="mask")
    heard = []
    adapter.observe(heard.append)
    before = adapter.state_dict()
    assert adapter(make_images(6) * float("nan")).isfinite().all()
    after = adapter.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert [(f["event"], f["masked"]) for f in heard] == [("masked", 6)]
    for bad in ([1], make_images(2)[0], make_images(2).long(), make_images(2)[:0]):
        with pytest.raises(ValueError, match="images must"):
            adapter(bad)
    assert torch.equal(adapter((make_images(6) * 255).byte()).argmax(1) >= 0, torch.ones(6) > 0)


def test_a_tensor_that_is_no_batch_is_a_sentence_where_batches_of_one_get_a_warning(build):
    with pytest.raises(ValueError, match="images must"):
        build("tent")(torch.tensor(0.5))
