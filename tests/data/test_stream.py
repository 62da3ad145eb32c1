"""Streams over a dataset made of numbers: batches, boundaries, limits, resuming, workers."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from multipool.core import ImageSet
from multipool.data.assembled import AssembledDataset
from multipool.data.protocol import SourceImages
from multipool.data.stream import Stream, StreamConfig


def numbered(count=50, domains=("a", "b", "c"), severities=(), lazy=False, own_labels=False):
    """Images whose pixels are (domain, severity, row), so that a batch says where it came from."""

    def labels_of(domain):
        shift = domains.index(domain) if own_labels else 0
        return (np.arange(count) + shift) % 10

    def read(domain, severity, rows):
        image = torch.zeros(len(rows), 3, 2, 2, dtype=torch.uint8)
        image[:, 0] = domains.index(domain)
        image[:, 1] = severity
        image[:, 2] = torch.from_numpy(rows)[:, None, None].to(torch.uint8)
        return image

    def source_of(split):
        return SourceImages(np.arange(100) % 10, lambda rows: read("a", 0, rows), "train")

    return AssembledDataset(
        name="numbered",
        num_classes=10,
        size=2,
        domains=domains,
        labels_of=labels_of,
        read=read,
        source_of=source_of,
        severities=severities,
        lazy=lazy,
    )


@pytest.mark.parametrize("protocol", ["ptta", "ctta", "mixed", "recurring", "interleaved"])
def test_batches_together_are_the_stream_and_each_image_fits_its_label_and_domain(protocol):
    stream = Stream(numbered(), StreamConfig(protocol, batch_size=16, rounds=2))
    batches = list(stream)
    assert len(batches) == len(stream)
    assert all(len(b) == 16 for b in batches[:-1])  # full batches straddle domains
    images = torch.cat([b.images for b in batches])
    labels = torch.cat([b.labels for b in batches])
    domains = torch.cat([b.domains for b in batches])
    assert images.dtype == torch.uint8
    assert torch.equal(images[:, 0, 0, 0].long(), domains)
    assert torch.equal(images[:, 2, 0, 0].long() % 10, labels)
    np.testing.assert_array_equal(labels.numpy(), stream.labels)
    np.testing.assert_array_equal(domains.numpy(), stream.domain_ids)
    np.testing.assert_array_equal(images[:, 2, 0, 0].numpy(), stream.rows)
    rounds = 2 if protocol == "recurring" else 1
    pairs = list(zip(domains.tolist(), stream.rows.tolist(), strict=True))
    assert len(pairs) == 150 * rounds
    assert len(set(pairs)) == 150
    assert torch.cat([b.rounds for b in batches]).tolist() == [
        r for r in range(rounds) for _ in range(150)
    ]


def test_some_batch_straddles_a_boundary():
    stream = Stream(numbered(), StreamConfig("ctta", batch_size=64))
    assert any(len(b.domains.unique()) > 1 for b in stream)


def test_random_access_equals_iteration_and_a_late_start_continues_it():
    stream = Stream(numbered(lazy=True), StreamConfig(batch_size=7), workers=3)
    whole = list(stream)
    for i in (0, 5, len(stream) - 1, -1):
        assert torch.equal(stream[i].images, whole[i].images)
    late = list(stream.batches(start=9))
    assert len(late) == len(stream) - 9
    for ours, theirs in zip(late, whole[9:], strict=True):
        assert torch.equal(ours.images, theirs.images)
        assert torch.equal(ours.labels, theirs.labels)
    with pytest.raises(IndexError, match="batches, got index"):
        stream[len(stream)]


def test_the_limit_takes_the_same_balanced_rows_of_every_domain():
    stream = Stream(numbered(), StreamConfig(limit=62, batch_size=4))
    assert stream.samples == 60  # floor(62 / 3) of each of 3 domains
    rows = [sorted(stream.rows[stream.domain_ids == d].tolist()) for d in range(3)]
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 20
    assert np.bincount(stream.labels).tolist() == [6] * 10
    other = Stream(numbered(), StreamConfig(limit=62, seed=1))
    assert sorted(set(other.rows.tolist())) != rows[0]


def test_a_limit_below_one_image_a_domain_is_refused():
    with pytest.raises(ValueError, match="limit must be at least 3, one image of each of 3"):
        Stream(numbered(), StreamConfig(limit=2))


def test_domains_with_other_labels_keep_their_own():
    stream = Stream(numbered(own_labels=True), StreamConfig("ctta"))
    np.testing.assert_array_equal(stream.labels, (stream.rows + stream.domain_ids) % 10)


def test_a_gradual_stream_reads_every_severity():
    stream = Stream(numbered(severities=(1, 2, 3)), StreamConfig("gradual", batch_size=10))
    images = torch.cat([b.images for b in stream])[:, :, 0, 0].tolist()
    assert len({tuple(i) for i in images}) == 3 * 3 * 50
    assert [s for _, s, _ in images[:150]] == [1] * 25 + [2] * 25 + [3] * 50 + [2] * 25 + [1] * 25
    assert Stream(numbered(severities=(1, 2, 3)), StreamConfig("gradual", limit=90)).samples == 90


def test_an_interleaved_stream_takes_its_cameras_from_the_config():
    one = Stream(numbered(), StreamConfig("interleaved", cameras=1))
    assert (np.diff(one.domain_ids) >= 0).all()
    many = Stream(numbered(), StreamConfig("interleaved", cameras=3))
    assert (np.diff(many.domain_ids) < 0).any()


def test_the_limit_of_few_classes_counts_images_that_are_shown():
    stream = Stream(numbered(), StreamConfig("few", shown=2, limit=24, batch_size=4))
    assert stream.samples == 24  # 8 of each domain, though two classes have 10 of its 50
    for d in range(3):
        assert np.bincount(stream.labels[stream.domain_ids == d]).max() == 4  # of each class alike
    classes = [set(stream.labels[stream.domain_ids == d].tolist()) for d in range(3)]
    assert all(len(found) == 2 for found in classes)
    assert len({frozenset(found) for found in classes}) > 1
    whole = Stream(numbered(), StreamConfig("few", shown=2, batch_size=4))
    limited = set(zip(stream.domain_ids.tolist(), stream.rows.tolist(), strict=True))
    assert limited < set(zip(whole.domain_ids.tolist(), whole.rows.tolist(), strict=True))


def test_few_classes_show_what_there_is_where_the_limit_is_more():
    one = Stream(numbered(), StreamConfig("few", limit=60, batch_size=4))
    assert one.samples == 15  # 5 images of a class in each of 3 domains
    assert Stream(numbered(), StreamConfig("few", batch_size=4)).samples == 15
    all_ten = Stream(numbered(), StreamConfig("few", shown=10, limit=60, batch_size=4))
    assert sorted(all_ten.rows) == sorted(Stream(numbered(), StreamConfig("ctta", limit=60)).rows)
    with pytest.raises(ValueError, match="shown must be a whole number of at least 1, got 0"):
        Stream(numbered(), StreamConfig("few", shown=0))


@pytest.mark.parametrize("protocol", ["ptta", "ctta", "mixed", "interleaved", "few"])
def test_a_distinct_stream_shows_no_row_twice(protocol):
    config = StreamConfig(protocol, batch_size=4, shown=3, distinct=True)
    stream = Stream(numbered(), config)
    assert len(set(stream.rows.tolist())) == stream.samples
    if protocol == "few":
        return
    counts = np.bincount(stream.domain_ids)
    assert sorted(counts.tolist()) == [16, 17, 17]
    for d in range(3):  # of ten classes with five images each a domain has one or two
        assert set(np.bincount(stream.labels[stream.domain_ids == d]).tolist()) <= {1, 2}
    repeated = Stream(numbered(), StreamConfig(protocol, batch_size=4, limit=48))
    assert len(set(repeated.rows.tolist())) == repeated.samples // 3


def test_a_limit_leaves_a_distinct_stream_a_part_of_what_it_would_show():
    whole = Stream(numbered(), StreamConfig("ctta", batch_size=4, distinct=True))
    stream = Stream(numbered(), StreamConfig("ctta", batch_size=4, limit=30, distinct=True))
    assert np.bincount(stream.domain_ids).tolist() == [10, 10, 10]
    shown = set(zip(stream.domain_ids.tolist(), stream.rows.tolist(), strict=True))
    assert shown < set(zip(whole.domain_ids.tolist(), whole.rows.tolist(), strict=True))
    more = Stream(numbered(), StreamConfig("ctta", batch_size=4, limit=90, distinct=True))
    assert more.samples == whole.samples == 50  # there are no more


def test_what_repeats_itself_repeats_the_images_of_its_domain():
    config = StreamConfig("gradual", batch_size=4, distinct=True)
    stream = Stream(numbered(severities=(1, 2)), config)
    assert stream.samples == 100
    rows = [set(stream.rows[stream.domain_ids == d].tolist()) for d in range(3)]
    assert sum(map(len, rows)) == len(set.union(*rows)) == 50


def test_a_distinct_stream_needs_domains_that_are_copies_of_the_same_images():
    with pytest.raises(ValueError, match="b of numbered has other images than a; leave it out"):
        Stream(numbered(own_labels=True), StreamConfig(distinct=True))
    with pytest.raises(ValueError, match="an image for each of 3 domains, got 2"):
        Stream(numbered(count=2), StreamConfig(distinct=True))


def test_a_gradual_stream_without_severities_is_refused():
    with pytest.raises(ValueError, match="needs severities, which numbered does not have"):
        Stream(numbered(), StreamConfig("gradual"))


def test_a_last_batch_of_one_is_left_out_unless_batches_have_one_sample():
    dataset = numbered(count=5, domains=("a",))
    assert [len(b) for b in Stream(dataset, StreamConfig(batch_size=4))] == [4]
    assert [len(b) for b in Stream(dataset, StreamConfig(batch_size=1))] == [1] * 5
    lone = Stream(numbered(count=1, domains=("a",)), StreamConfig(batch_size=4))
    assert [len(b) for b in lone] == [1]  # a stream of one sample is shown all the same


def test_workers_read_ahead_a_bounded_number_of_batches_and_stop_when_abandoned():
    running = threading.active_count()
    dataset = numbered(count=200, domains=("a",), lazy=True)
    reads = []
    counted = AssembledDataset(
        **{
            **dataset.__dict__,
            "read": lambda d, s, rows: (reads.append(len(rows)), dataset.read(d, s, rows))[1],
        }
    )
    batches = Stream(counted, StreamConfig(batch_size=2), workers=2).batches()
    next(batches)
    assert len(reads) <= 5
    batches.close()
    assert threading.active_count() == running


def test_a_reader_that_fails_in_a_worker_is_heard():
    dataset = numbered(lazy=True)

    def broken(domain, severity, rows):
        raise ValueError("no image")

    stream = Stream(AssembledDataset(**{**dataset.__dict__, "read": broken}))
    with pytest.raises(ValueError, match="no image"):
        list(stream)


@pytest.mark.parametrize("protocol", ["ptta", "mixed", "gradual"])
def test_images_kept_in_one_tensor_are_the_same_ones(protocol):
    dataset = numbered(severities=(1, 2))
    read = Stream(dataset, StreamConfig(protocol, batch_size=16))
    kept = Stream(dataset, StreamConfig(protocol, batch_size=16), resident=True)
    for ours, theirs in zip(kept, read, strict=True):
        assert torch.equal(ours.images, theirs.images)
        assert torch.equal(ours.labels, theirs.labels)


def test_preparing_reads_one_image_of_each_domain_and_severity():
    dataset = numbered(severities=(1, 2))
    read = []
    watched = AssembledDataset(
        **{
            **dataset.__dict__,
            "read": lambda d, s, rows: (read.append((d, s, len(rows))), dataset.read(d, s, rows))[
                1
            ],
        }
    )
    told = []
    Stream(watched, StreamConfig("gradual")).prepare(told.append)
    assert read == [(d, s, 1) for d in "abc" for s in (1, 2)]
    assert told[0] == "a at severity 1"
    Stream(dataset).prepare()


def test_wrong_settings_are_one_sentence():
    with pytest.raises(ValueError, match="unknown protocol 'pta'; did you mean 'ptta'"):
        StreamConfig("pta")
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        StreamConfig(batch_size=0)


def test_source_images_come_shuffled_once_each_and_the_same_on_every_pass():
    source = numbered().source()
    first = list(source)
    assert [len(labels) for _, labels in first] == [64, 36]
    assert len(source) == 2
    labels = torch.cat([labels for _, labels in first])
    assert labels.bincount().tolist() == [10] * 10
    assert labels.tolist() != source.labels.tolist()
    assert torch.equal(first[0][0], next(iter(source))[0])
    assert isinstance(source.whole(), ImageSet)
    assert source.whole().labels.tolist() == source.labels.tolist()
