"""What neighbours have in common beyond what their domain explains."""

import numpy as np
import pytest
import torch

from multipool.decode import Said, SequenceDecoder
from multipool.decode.bias import favoured
from multipool.decode.within import followed, is_within, read_on, within_terms


def test_a_sample_follows_the_last_one_of_its_slot():
    generator = np.random.default_rng(1)
    plain, last = generator.random((9, 4)), generator.random((3, 4))
    slots = np.array([0, 2, 2, 0, 1, 0, 2, 1, 0])
    found = followed(plain, slots, last)
    rows = dict(enumerate(last))
    for t, slot in enumerate(slots.tolist()):
        np.testing.assert_array_equal(found[t], rows[slot])
        rows[slot] = plain[t]


def test_terms_are_those_of_loops_over_samples():
    generator = np.random.default_rng(0)
    plain, before = generator.dirichlet(np.ones(4), size=(2, 20))
    domains = generator.integers(4, size=20)
    scale = [[10.0], [200.0], [2000.0], [2000.0]]  # of the first little is known
    sums, read = generator.random((2, 4, 4)) * scale
    read[3] *= 0.01  # nor was much read of the last
    found = within_terms(plain, (plain * before).sum(axis=1), read, Said(sums, domains), domains)
    for t, domain in enumerate(domains):
        for kind, mean in enumerate((sums[domain] / favoured(sums[[domain]])[0], read[domain])):
            far = plain[t] @ mean / mean.sum()
            more, most = plain[t] @ before[t] - far, plain[t] @ plain[t] - far
            known = sums[domain].sum() >= 128 <= read[domain].sum()
            expected = [more, more**2, most] if known else [0, 0, 0]
            np.testing.assert_allclose(found[t, kind], expected, atol=1e-6)


def test_what_was_read_is_added_up_forgotten_and_begun_anew():
    plain, domains = np.eye(3)[[0, 0, 2, 1]], np.array([1, 1, 0, 2])
    read = np.array([[5.0, 0, 0], [1, 1, 1], [0, 7, 0]])
    sums = np.ones((3, 3)) * [[0.0], [9.0], [9.0]]  # nothing was said of domain 0: it is new
    found = read_on(read, plain, Said(sums, domains), domains)
    assert found.tolist() == [[0, 0, 1], [3, 1, 1], [0, 8, 0]]
    zeros = np.zeros(1, dtype=np.int64)
    said = Said(np.ones((1, 2)), zeros)
    full = read_on(np.array([[4096.0, 4096.0]]), np.eye(2)[:1], said, zeros)
    assert full.sum() == pytest.approx(4096)


def test_order_within_a_domain_is_much_and_beyond_chance_both_ways():
    good = np.array([[30.0, 9.0, 100.0], [15.0, 9.0, 100.0]])  # a third, and a seventh
    assert is_within(good)
    for row, values in (
        (0, [30, 9, 130]),
        (0, [30, 100, 100]),
        (1, [15, 9, 160]),
        (1, [15, 25, 100]),
    ):
        changed = good.copy()
        changed[row] = values  # less than a quarter, a tenth; less than 3.5 deviations
        assert not is_within(changed)


def decode(logits, domains, told):
    """Decode in batches, telling what was said so far of each domain; return the answers."""
    decoder, answers = SequenceDecoder(logits.shape[1]), []
    sums = np.zeros((int(domains.max()) + 1, logits.shape[1]))
    for piece, rows in zip(logits.split(64), torch.from_numpy(domains).split(64), strict=True):
        said = Said(sums.copy(), rows.numpy()) if told else None
        answer, state = decoder.ahead(piece, said)
        decoder.go_on(state)
        answers.append(answer.argmax(dim=1))
        np.add.at(sums, rows.numpy(), piece.double().softmax(dim=1).numpy())
    return torch.cat(answers), decoder


@pytest.fixture
def long_runs():
    """Return labels ``(4800,)`` of runs of 400 samples, and logits right about 60 % of them."""
    labels = torch.from_numpy(np.repeat(np.random.default_rng(2).permutation(12) % 6, 400))
    logits = torch.randn(len(labels), 6, generator=torch.Generator().manual_seed(3))
    return labels, logits + 1.5 * torch.nn.functional.one_hot(labels, 6)


def test_runs_longer_than_strangers_lie_apart_are_found_where_domains_are_known(long_runs):
    labels, logits = long_runs
    domains = np.zeros(len(labels), dtype=np.int64)
    wrong = {told: (decode(logits, domains, told)[0] != labels).float().mean() for told in (0, 1)}
    assert wrong[1] < 0.15
    assert wrong[1] < wrong[0] - 0.1


def test_a_bias_that_changes_with_the_domain_is_no_order(long_runs):
    labels, logits = long_runs
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(4))
    logits = logits[shuffled]
    domains = np.repeat(np.arange(12), 400)
    for domain in range(12):  # a domain in which one class is favoured
        logits[domains == domain, domain % 6] += 2.0
    answers, decoder = decode(logits, domains, told=True)
    assert not is_within(decoder.state_dict()["within"].numpy())
    assert torch.equal(answers, logits.argmax(dim=1))


def test_cameras_in_domains_of_their_own_are_read_one_by_one(classes_of, logits_of):
    labels = torch.stack([classes_of(800, 6, 0.97, seed) for seed in (5, 6, 7)], dim=1).flatten()
    turns = np.random.default_rng(8).permuted(np.tile([0, 1, 2], (800, 1)), axis=1)
    shown = labels.view(800, 3).gather(1, torch.from_numpy(turns)).flatten()
    logits, domains = logits_of(shown, 6, 1.5, 9), turns.flatten()
    wrong = {told: (decode(logits, domains, told)[0] != shown).float().mean() for told in (0, 1)}
    assert wrong[1] < 0.5 * wrong[0]
    assert "lag 0" in repr(decode(logits, domains, told=True)[1])


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_uneven_classes_in_random_order_are_no_order(logits_of, scale):
    generator = np.random.default_rng(10)
    labels = torch.from_numpy(generator.choice(5, size=4000, p=[0.9, 0.04, 0.02, 0.02, 0.02]))
    logits = logits_of(labels, 5, 5.0, 11) * scale  # unsure, too: sharpened before it is read
    answers, decoder = decode(logits, np.zeros(4000, dtype=np.int64), told=True)
    assert torch.equal(answers, logits.argmax(dim=1))
    assert decoder.gate < 0.5


def test_who_stops_telling_domains_is_read_without_them(classes_of, logits_of):
    labels = torch.stack([classes_of(1500, 6, 0.97, seed) for seed in (5, 6, 7)], dim=1)
    turns = np.random.default_rng(8).permuted(np.tile([0, 1, 2], (1500, 1)), axis=1)
    shown = labels.gather(1, torch.from_numpy(turns)).flatten()
    logits, domains = 2.5 * logits_of(shown, 6, 2.5, 9), turns.flatten()  # as sure as it is right
    decoder, sums = SequenceDecoder(6), np.zeros((3, 6))
    wrong = []
    for start in range(0, 4500, 60):
        piece, rows = logits[start : start + 60], domains[start : start + 60]
        answer, state = decoder.ahead(piece, Said(sums.copy(), rows) if start < 2400 else None)
        decoder.go_on(state)
        wrong.append((answer.argmax(dim=1) != shown[start : start + 60]).float())
        np.add.at(sums, rows, piece.double().softmax(dim=1).numpy())
    plain = (logits.argmax(dim=1) != shown).float()
    assert torch.cat(wrong)[1200:2400].mean() < 0.7 * plain[1200:2400].mean()
    assert torch.cat(wrong)[2400:].mean() < plain[2400:].mean() + 0.01


@pytest.mark.parametrize(
    ("sums", "domains", "words"),
    [
        (np.ones((2, 5)), np.zeros(4, int), "shape"),
        (np.full((2, 6), np.nan), np.zeros(4, int), "finite"),
        (-np.ones((2, 6)), np.zeros(4, int), "below 0"),
        (np.ones((2, 6)), np.zeros(3, int), "one a sample"),
        (np.ones((2, 6)), np.zeros(4, np.int32), "int64"),
        (np.ones((2, 6)), np.array([0, 1, 2, 0]), "0 to 1"),
        (np.ones((2, 6)), np.array([0, -1, 0, 0]), "0 to 1"),
    ],
)
def test_what_is_not_said_of_domains_is_refused_and_changes_nothing(sums, domains, words):
    decoder = SequenceDecoder(6)
    with pytest.raises(ValueError, match=words):
        decoder.ahead(torch.randn(4, 6), Said(sums, domains))
    assert decoder.state_dict()["seen"] == 0
