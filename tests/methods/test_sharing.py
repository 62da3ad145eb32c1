"""Adapters over one shared model: what they share, and that they never mix."""

import threading

import pytest
import torch

import multipool
from multipool import methods
from multipool.methods import METHODS

NO_SOURCE = [name for name, kind in METHODS.items() if not kind.needs_source]


@pytest.mark.parametrize("method", NO_SOURCE)
def test_streams_over_shared_weights_answer_as_if_alone(method, tiny_net, make_images):
    shared = multipool.share(tiny_net)
    before = {name: t.clone() for name, t in shared.fingerprint().items()}
    together = [methods.adapt(shared, method, seed=s) for s in range(2)]
    alone = [methods.adapt(tiny_net, method, seed=s) for s in range(2)]
    for step in range(4):
        for stream, (ours, theirs) in enumerate(zip(together, alone, strict=True)):
            images = make_images(16, seed=10 * step + stream)
            assert torch.equal(ours(images), theirs(images))
    assert all(torch.equal(t, before[name]) for name, t in shared.fingerprint().items())


def test_twins_share_every_weight_and_run_at_the_same_time(tiny_net, make_images):
    first = multipool.share(tiny_net)
    second = multipool.share(first)
    assert second is not first
    assert second.lock is not first.lock
    for ours, theirs in zip(first.body.parameters(), second.body.parameters(), strict=True):
        assert ours is theirs
    answers: dict[int, list[torch.Tensor]] = {}

    def drive(stream: int, model: torch.nn.Module) -> None:
        adapter = multipool.adapt(model)
        answers[stream] = [adapter(make_images(8, seed=100 * stream + i)) for i in range(12)]

    threads = [threading.Thread(target=drive, args=(i, m)) for i, m in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream, given in answers.items():
        alone = multipool.adapt(tiny_net)
        expected = [alone(make_images(8, seed=100 * stream + i)) for i in range(12)]
        assert all(torch.equal(a, b) for a, b in zip(given, expected, strict=True))


def test_threads_over_one_shared_model_take_turns(tiny_net, make_images):
    shared = multipool.share(tiny_net)
    answers: dict[int, list[torch.Tensor]] = {}

    def drive(stream: int) -> None:
        adapter = multipool.adapt(shared)
        answers[stream] = [adapter(make_images(8, seed=100 * stream + i)) for i in range(12)]

    threads = [threading.Thread(target=drive, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream, given in answers.items():
        alone = multipool.adapt(tiny_net)
        expected = [alone(make_images(8, seed=100 * stream + i)) for i in range(12)]
        assert all(torch.equal(a, b) for a, b in zip(given, expected, strict=True))


def test_a_saved_stream_comes_back_over_the_shared_model_with_its_notes(
    tiny_net, make_images, tmp_path
):
    shared = multipool.share(tiny_net)
    adapter = multipool.adapt(shared)
    adapter(make_images(16))
    adapter.notes = {"camera": "north", "requests": 1}
    adapter.save(tmp_path / "a.safetensors")
    back = multipool.load(tmp_path / "a.safetensors", shared)
    assert back.network is shared
    assert back.notes == {"camera": "north", "requests": 1}
    assert torch.equal(back(make_images(16, seed=1)), adapter(make_images(16, seed=1)))


def test_a_stream_costs_what_it_learns_and_not_the_weights(make_net):
    wide = torch.nn.Sequential(make_net(), torch.nn.Linear(5, 4096), torch.nn.Linear(4096, 5))
    shared = multipool.share(wide)
    ours = {p.data_ptr() for p in multipool.adapt(shared).network.body.parameters()}
    assert ours == {p.data_ptr() for p in shared.body.parameters()}


@pytest.mark.parametrize(
    ("options", "said"),
    [({"num_classes": 7}, "num_classes=5, got 7"), ({"precision": "bf16"}, "got 'bf16'")],
)
def test_what_the_shared_model_was_not_made_for_is_refused(tiny_net, options, said):
    with pytest.raises(ValueError, match=said):
        multipool.adapt(multipool.share(tiny_net), **options)


def test_a_precision_that_nobody_named_is_that_of_the_shared_model(tiny_net, make_images, tmp_path):
    shared = multipool.share(tiny_net, precision="fp16")
    adapter = multipool.adapt(shared, "tent")
    assert (adapter.setup.precision, adapter.network.precision) == ("auto", "fp16")
    with pytest.raises(ValueError, match="precision='fp16', got 'float32'"):
        multipool.adapt(shared, "tent", precision="float32")
    adapter(make_images(8))
    adapter.save(tmp_path / "a.safetensors")
    assert multipool.load(tmp_path / "a.safetensors", shared).network is shared
    assert multipool.load(tmp_path / "a.safetensors", tiny_net).network.precision == "float32"
    with pytest.raises(ValueError, match="unknown precision 'auto'"):
        multipool.share(tiny_net, precision="auto")


def test_what_is_no_model_cannot_be_shared():
    with pytest.raises(ValueError, match=r"torch\.nn\.Module, got str"):
        multipool.share("model")
    with pytest.raises(ValueError, match="num_classes must be given"):
        multipool.share(torch.nn.Flatten())
    with pytest.raises(ValueError, match="precision"):
        multipool.share(torch.nn.Linear(2, 2), precision="int4")
