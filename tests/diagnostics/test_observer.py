import pytest
import torch

from multipool.diagnostics import MemoryObserver, memory_quality
from multipool.memory import build


def watched(images, batch=32, **options):
    bank = build("fifo", num_classes=10, capacity=16)
    observer = MemoryObserver(bank, **options)
    for part in images.split(batch):
        bank.add(part)
        observer.see(part)
    return bank, observer


def test_a_bank_is_measured_at_every_interval(modes):
    images, _ = modes(3, 200)
    _, observer = watched(images, interval=64, components=3)
    assert [point.samples for point in observer.trace] == [64, 128, 192]
    assert all(sum(point.quality.occupancy) == 16 for point in observer.trace)


def test_a_measurement_is_that_of_memory_quality(modes):
    images, _ = modes(3, 128)
    bank, observer = watched(images, interval=128, components=3)
    assert observer.trace[-1].quality == memory_quality(bank, images, components=3)
    assert observer.trace[-1].as_dict()["samples"] == 128


def test_the_end_can_be_measured_once(modes):
    images, _ = modes(3, 150)
    _, observer = watched(images, interval=64, components=3)
    for _ in range(2):
        observer.measure()
    assert [point.samples for point in observer.trace] == [64, 128, 150]


def test_an_empty_bank_is_not_measured(modes):
    images, _ = modes(1, 64)
    observer = MemoryObserver(build("fifo", num_classes=10), interval=32)
    observer.see(images)
    assert observer.trace == []
    assert observer.seen == 64


def test_the_reference_is_fitted_anew_when_the_stream_has_grown(modes):
    images, _ = modes(3, 700)
    _, observer = watched(images[:640], interval=64, components=3)
    kept = observer.reference()
    observer.see(images[640:650])  # less than a tenth
    assert observer.reference() is kept
    observer.see(images[:64])
    assert observer.reference() is not kept


def test_an_interrupted_observer_goes_on_as_if_it_had_not_stopped(modes):
    images, _ = modes(4, 640)
    _, whole = watched(images, interval=64, components=4)
    bank, first = watched(images[:416], interval=64, components=4)
    second = MemoryObserver(bank, interval=64, components=4)
    second.restore(first.notes(), images[:416].split(32))
    for part in images[416:].split(32):
        bank.add(part)
        second.see(part)
    assert second.trace == whole.trace


def test_integer_images_are_those_divided_by_255(modes):
    images, _ = modes(3, 64)
    bytes_ = (images * 255).round().to(torch.uint8)
    _, one = watched(bytes_, interval=64)
    _, two = watched(bytes_.float() / 255, interval=64)
    assert one.trace == two.trace


def test_wrong_options_are_one_sentence():
    bank = build("fifo", num_classes=10)
    with pytest.raises(ValueError, match="interval must be a whole number of at least 1, got 0"):
        MemoryObserver(bank, interval=0)
    with pytest.raises(ValueError, match="descriptor must be one of pixel, .*, got 'feature'"):
        MemoryObserver(bank, descriptor="feature")
    with pytest.raises(ValueError, match="nothing yet"):
        MemoryObserver(bank).reference()
