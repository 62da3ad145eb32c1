"""What every method promises, put to every entry of the table."""

import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import multipool
from multipool.methods import METHODS, adapt, load
from multipool.testing import METHOD_CHECKS, MethodCase, source_batches

MEMORY_METHODS = [name for name, kind in METHODS.items() if kind.takes_memory]
WITH_MEMORY = [(name, bank) for name in MEMORY_METHODS for bank in ("mcm", "mcm+", "fifo")]


@pytest.fixture
def make(make_net):
    def build(name, memory=None, **more):
        return adapt(make_net(), name, memory, source=source_batches(), seed=1, **more)

    return build


@pytest.mark.parametrize("promise", METHOD_CHECKS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_its_promises(name, promise):
    METHOD_CHECKS[promise](MethodCase(name))


@pytest.mark.parametrize(("name", "memory"), WITH_MEMORY)
def test_with_any_memory_it_goes_on_after_loading_bit_for_bit(name, memory):
    METHOD_CHECKS["saved and loaded it goes on bit for bit"](MethodCase(name, memory))


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
    # Learning by gradients has steps of its own.
    adapter = make(name, options={"lr": 0.0} if name == "multipool" else None)

    def fail(*_):
        raise torch.OutOfMemoryError("none left")

    real, adapter.method.update = adapter.method.update, fail
    assert adapter(make_images(64, seed=1)).isfinite().all()
    assert adapter.counts["skipped"] == 1
    adapter.method.update = real
    adapter(make_images(64, seed=2))
    assert adapter.counts == {"updates": 2, "skipped": 1, "restored": 0}


def test_a_random_view_has_no_gradient(make, make_images):
    method, images = make("rotta").method, make_images(4).requires_grad_()
    with torch.enable_grad():
        assert not method.augmented(images).requires_grad


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
    leave()  # who has left stays away
    adapter(make_images(64))
    assert [f["seen"] for f in heard] == [64, 128]
    assert all(f["loss"] > 0 and f["memory"] == sum(f["sizes"]) for f in heard)


def test_what_cannot_listen_and_what_is_no_json_are_sentences(make, tmp_path):
    adapter = make("tent")
    with pytest.raises(ValueError, match="observe takes a function of the facts, got 3"):
        adapter.observe(3)
    adapter.notes["mine"] = object()
    with pytest.raises(ValueError, match="notes must be what JSON can hold: Object of type"):
        adapter.save(tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


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
        (dict(method="rotta", memory=3), "memory must be a name, a bank"),
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
    with pytest.raises(ValueError, match="'rotta' adapts normalisation layers and .* none"):
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
