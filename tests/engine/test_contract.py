"""What every method promises, put to every entry of the table."""

import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import multipool
from multipool.methods import METHODS, adapt, load

MEMORY_METHODS = [name for name, kind in METHODS.items() if kind.takes_memory]
CASES = [(name, None) for name in METHODS] + [
    (name, bank) for name in MEMORY_METHODS for bank in ("mcm", "mcm+", "fifo")
]


@pytest.fixture
def make(make_net, make_images):
    def build(name, memory=None, **more):
        images = make_images(96, seed=77)
        labels = torch.arange(96) % 5
        source = [(images[i : i + 32], labels[i : i + 32]) for i in (0, 32, 64)]
        return adapt(make_net(), name, memory, source=source, seed=1, **more)

    return build


@pytest.mark.parametrize(("name", "memory"), CASES)
def test_saved_and_loaded_it_goes_on_bit_for_bit(
    make, make_net, make_images, tmp_path, name, memory
):
    adapter = make(name, memory)
    for t in range(3):
        adapter(make_images(50, seed=t))  # 150 samples: in the middle between two updates
    adapter.save(tmp_path / "state.safetensors")
    images = make_images(96, seed=77)
    labels = torch.arange(96) % 5
    source = [(images[i : i + 32], labels[i : i + 32]) for i in (0, 32, 64)]
    again = load(tmp_path / "state.safetensors", make_net(), source=source)
    for t in range(3, 7):
        x = make_images(50, seed=t)
        assert torch.equal(adapter(x), again(x))
    first, second = adapter.state_dict(), again.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize("name", METHODS)
def test_reset_is_the_beginning(make, make_images, name):
    adapter = make(name)
    batches = [make_images(64, seed=t) for t in range(3)]
    first = [adapter(x) for x in batches]
    adapter.reset()
    assert all(torch.equal(a, adapter(x)) for a, x in zip(first, batches, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_predictions(make, make_images, name):
    one, other = make(name), make(name)
    for t in range(3):
        x = make_images(64, seed=t)
        assert torch.equal(one(x), other(x))


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_of_one_and_a_short_one_get_finite_logits(make, make_images, name):
    adapter = make(name)
    for size in (64, 1, 3, 64, 1):
        logits = adapter(make_images(size, seed=size))
        assert logits.shape == (size, 5)
        assert logits.isfinite().all()
        assert not logits.requires_grad


BAD = {
    "a list": lambda x: x.tolist(),
    "rank 3": lambda x: x[0],
    "an empty batch": lambda x: x[:0],
    "integers": lambda x: x.long(),
    "values to 255": lambda x: x * 255,
    "negative values": lambda x: x - 0.5,
    "NaN": lambda x: x.where(x != x.flatten()[7], torch.tensor(float("nan"))),
    "infinity": lambda x: x.where(x != x.flatten()[7], torch.tensor(float("inf"))),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", METHODS)
def test_bad_input_is_a_sentence_and_changes_nothing(make, make_images, name, bad):
    adapter = make(name)
    adapter(make_images(64, seed=0))
    before = adapter.state_dict()
    with pytest.raises(ValueError, match="images must"):
        adapter(BAD[bad](make_images(8, seed=1)))
    after = adapter.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[k], after[k]) for k in before)


@pytest.mark.parametrize("name", METHODS)
def test_bytes_and_floats_of_the_same_image_are_the_same(make, make_images, name):
    x = make_images(64, seed=2)
    one, other = make(name), make(name)
    torch.testing.assert_close(one((x * 255).round().byte()), other(x))


@pytest.mark.parametrize("name", METHODS)
def test_the_users_model_is_never_changed(make_net, make_images, name):
    net = make_net()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    source = [(make_images(64, seed=5), torch.arange(64) % 5)]
    adapter = adapt(net, name, source=source)
    for t in range(2):
        adapter(make_images(64, seed=t))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert not net.training
    assert all(p.requires_grad and p.grad is None for p in net.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_it_works_inside_inference_mode(make, make_images, name):
    inside, outside = make(name), make(name)
    for t in range(2):
        x = make_images(64, seed=t)
        expected = outside(x)
        with torch.inference_mode():
            torch.testing.assert_close(inside(x.clone()), expected)


@pytest.mark.parametrize("name", METHODS)
def test_the_flat_state_is_tensors_only(make, make_images, name):
    adapter = make(name)
    adapter(make_images(64))
    assert all(
        isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in adapter.state_dict().items()
    )


@pytest.mark.parametrize("name", MEMORY_METHODS)
def test_an_update_that_is_not_finite_is_undone_and_counted(make, make_images, name):
    adapter = make(name)
    adapter(make_images(64, seed=0))
    before = {name: tensor.clone() for name, tensor in adapter.state.tensors.items()}
    real = adapter.method.images_of
    adapter.method.images_of = lambda stored: real(stored) * float("nan")
    logits = adapter(make_images(64, seed=1))
    adapter.method.images_of = real
    after = adapter.state.tensors
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert adapter.counts["skipped"] == 1
    assert logits.isfinite().all()
    assert adapter(make_images(64, seed=2)).isfinite().all()
    assert not all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("name", MEMORY_METHODS)
def test_an_update_that_raises_is_undone_and_the_stream_goes_on(make, make_images, name):
    adapter = make(name)

    def fail(*_):
        raise torch.OutOfMemoryError("none left")

    real, adapter.method.update = adapter.method.update, fail
    assert adapter(make_images(64, seed=1)).isfinite().all()
    assert adapter.counts["skipped"] == 1
    adapter.method.update = real
    adapter(make_images(64, seed=2))
    assert adapter.counts == {"updates": 2, "skipped": 1, "restored": 0}


def test_without_the_guard_the_error_reaches_the_caller(make, make_images):
    adapter = make("rotta", guard=False)
    adapter.method.view = None
    with pytest.raises(TypeError):
        adapter(make_images(64))


def test_observers_hear_of_each_update_until_they_leave(make, make_images):
    adapter = make("rotta", "mcm")
    heard = []
    leave = adapter.observe(heard.append)
    adapter(make_images(128))
    leave()
    adapter(make_images(64))
    assert [f["seen"] for f in heard] == [64, 128]
    assert all(f["loss"] > 0 and f["memory"] == sum(f["sizes"]) for f in heard)


def test_eight_threads_get_their_own_predictions(make, make_images):
    adapter, results = make("source"), {}
    batches = [make_images(5 + i, seed=i) for i in range(8)]

    def work(i):
        results[i] = adapter(batches[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    reference = make("source")
    assert all(torch.equal(results[i], reference(batches[i])) for i in range(8))


def test_unknown_names_and_misplaced_options_are_sentences(make_net):
    net = make_net()
    cases = [
        (dict(method="rota"), "did you mean 'rotta'"),
        (dict(method="rotta", memory="mcn"), "did you mean 'mcm'"),
        (dict(method="source", memory="mcm"), "method 'source' has no memory"),
        (dict(method="rotta", memory=3), "memory must be a name or a bank"),
        (dict(method="rotta", options={"lrr": 1.0}), "did you mean 'lr'"),
        (dict(method="rotta", options={"lr": "fast"}), "must be float, got 'fast'"),
        (dict(method="petta"), "method 'petta' needs source data"),
        (dict(method="petta", source=3), "source must be an iterable"),
        (dict(method="rotta", precision="fp8"), "unknown precision 'fp8'"),
        (dict(method="rotta", num_classes=1), "num_classes must be .* at least 2"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            adapt(net, **arguments)
    with pytest.raises(ValueError, match="model must be a torch.nn.Module"):
        adapt(lambda x: x)


def test_a_model_without_batchnorm_is_refused_in_a_sentence_or_runs(make_images):
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    assert adapt(net, "source")(make_images(4)).shape == (4, 5)
    with pytest.raises(ValueError, match="'rotta' adapts BatchNorm layers and this model has none"):
        adapt(net, "rotta")


def test_a_state_of_another_model_or_method_or_an_altered_one_is_refused(make, make_net, tmp_path):
    path = tmp_path / "state.safetensors"
    make("rotta").save(path)
    with pytest.raises(ValueError, match="from another model"):
        load(path, make_net(seed=8))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    (tmp_path / "altered").write_bytes(content)
    with pytest.raises(ValueError, match="altered"):
        load(tmp_path / "altered", make_net())
    (tmp_path / "short").write_bytes(content[:-40])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load(tmp_path / "short", make_net())
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent", make_net())
    state = make("rotta").state_dict()
    with pytest.raises(ValueError, match="not one of method 'source'"):
        make("source").load_state_dict(state)


def test_a_wrong_number_of_classes_is_noticed_at_the_first_batch(make_net, make_images):
    adapter = adapt(make_net(), "rotta", num_classes=7)
    with pytest.raises(ValueError, match="gives 5 logits an image, num_classes is 7"):
        adapter(make_images(64))
    assert len(adapter.memory) == 0


def test_a_moved_adapter_says_to_move_the_model(make):
    with pytest.raises(ValueError, match="move or cast the model before"):
        make("source").half()


def test_the_top_level_gives_what_users_type(make_net, make_images):
    adapter = multipool.adapt(make_net(), method="rotta", memory="mcm")
    assert adapter(make_images(4)).shape == (4, 5)
    assert "rotta" in multipool.methods.available()


def test_importing_the_library_needs_torch_numpy_and_safetensors_only():
    blocked = ["scipy", "sklearn", "PIL", "typer", "rich", "matplotlib", "pooch", "yaml"]
    code = (
        f"import sys\nfor m in {blocked}: sys.modules[m] = None\n"
        "import multipool, multipool.memory, multipool.methods, multipool.data, multipool.models\n"
        "import multipool.diagnostics\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
