"""An adapter as a module among modules: part of another, copied, pickled, moved, shown."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from multipool.memory import MEMORIES, arrivals, build, switch
from multipool.methods import METHODS, adapt

CASES = [(name, None) for name in METHODS] + [("rotta", bank) for bank in MEMORIES]


@pytest.fixture
def make(make_net, make_images):
    def build(name, memory=None, **more):
        images = make_images(96, seed=77)
        source = [(images[i : i + 32], torch.arange(32) % 5) for i in (0, 32, 64)]
        return adapt(make_net(), name, memory, source=iter(source), seed=1, **more)

    return build


class Around(nn.Module):
    """A module with an adapter inside."""

    def __init__(self, adapter):
        super().__init__()
        self.before, self.adapter = nn.Linear(2, 2), adapter

    def forward(self, images):
        return self.adapter(images)


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", METHODS)
def test_inside_another_module_its_state_travels_with_that_modules(make, make_images, name):
    around, again = Around(make(name)), Around(make(name))
    for t in range(3):
        around(make_images(40, seed=t))
    state = around.state_dict()
    own = {k.removeprefix("adapter."): v for k, v in state.items() if k.startswith("adapter.")}
    assert equal(own, around.adapter.state_dict())
    assert {"before.weight", "before.bias"} == state.keys() - {f"adapter.{k}" for k in own}
    saved = io.BytesIO()
    torch.save(state, saved)
    saved.seek(0)
    again.load_state_dict(torch.load(saved, weights_only=True))
    x = make_images(40, seed=9)
    assert torch.equal(around(x), again(x))


def test_a_state_that_does_not_fit_is_an_error_of_the_module_around(make, make_images):
    around = Around(make("rotta"))
    before = around.adapter.state_dict()
    state = around.state_dict()
    del state["adapter.student.affine"]
    with pytest.raises(RuntimeError, match=r"not one of method 'rotta': it lacks 'student.affine'"):
        around.load_state_dict(state)
    assert equal(before, around.adapter.state_dict())


@pytest.mark.parametrize("again", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
@pytest.mark.parametrize(("name", "memory"), CASES)
def test_a_copy_goes_on_bit_for_bit_and_shares_nothing(make, make_images, name, memory, again):
    adapter = make(name, memory)
    for t in range(2):
        adapter(make_images(50, seed=t))  # in the middle between two updates
    other = again(adapter)
    before = adapter.state_dict()
    for t in range(2, 5):
        other(make_images(50, seed=t))
    assert equal(adapter.state_dict(), before)
    expected = other.state_dict()
    for t in range(2, 5):
        adapter(make_images(50, seed=t))
    assert equal(adapter.state_dict(), expected)
    first = make(name, memory)(make_images(50))
    other.reset()
    assert torch.equal(other(make_images(50)), first)


def test_a_copy_keeps_a_bank_of_the_users_own_and_its_beginning(make_net, make_images):
    bank = build("fifo", 5, capacity=20)
    bank.add(make_images(3, seed=8))
    adapter = adapt(make_net(), "rotta", bank)
    adapter(make_images(10))
    other = copy.deepcopy(adapter)
    other(make_images(4))
    assert (len(bank), len(other.memory)) == (13, 17)
    other.reset()
    assert len(other.memory) == 3


def test_a_module_around_it_is_copied_with_it(make, make_images):
    around = Around(make("tent"))
    other = copy.deepcopy(around)
    around(make_images(20))
    assert not torch.equal(
        around.adapter.method.student.affine, other.adapter.method.student.affine
    )


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_where_it_is_it_may_be_sent_and_nowhere_else(make, make_images, precision):
    adapter = make("rotta", precision=precision)
    around = Around(adapter)
    assert around.to("cpu") is around
    assert adapter.cpu() is adapter
    for move in (lambda: adapter.to("meta"), around.half, lambda: adapter.double()):
        with pytest.raises(ValueError, match="move or cast the model before multipool.adapt"):
            move()
    assert adapter(make_images(4)).isfinite().all()


def test_train_and_eval_change_nothing_it_does(make, make_images):
    one, other = make("tent").eval(), make("tent").train()
    assert (one.training, other.training) == (False, True)
    for t in range(2):
        assert torch.equal(one(make_images(20, seed=t)), other(make_images(20, seed=t)))
    assert list(one.parameters()) == []


def test_it_says_what_it_is(make, make_images):
    adapter = make("petta", "mcm")
    adapter(make_images(64))
    memory = adapter.memory
    assert repr(adapter) == (
        "Adapter(method='petta', num_classes=5, memory='mcm' (MultiClusterMemory of 64: "
        f"{len(memory)} in {len(memory.clusters)} pools), guard=True, device='cpu')"
    )
    assert "memory='class-balanced' (ClassBalancedPool of 64: 0)" in repr(make("rotta"))
    assert repr(make("tent")) == "Adapter(method='tent', num_classes=5, guard=True, device='cpu')"


def test_pixels_are_read_for_their_range_once_a_batch(make, make_images, monkeypatch):
    read, bounds = [], arrivals._bounds
    monkeypatch.setattr(arrivals, "_bounds", lambda images: read.append(1) or bounds(images))
    for memory in MEMORIES:
        with switch.by_numpy():  # compiled code finds the range on the way
            adapter = make("rotta", memory)
        adapter(make_images(8))
        assert read == []
        adapter.memory.add(make_images(8))
        assert read.pop() == 1
        with pytest.raises(ValueError, match="images must lie in"):
            adapter.memory.add(make_images(8) * 2)
        read.clear()


def test_a_bank_of_the_users_own_takes_the_same_way_as_ours(make_net, make_images):
    """It has the protocol and nothing more, and never hears of logits that are not finite."""

    class Own:
        def __init__(self):
            self._bank = build("fifo", 5)
            self.capacity, self.num_classes, self.events = 64, 5, {}
            self.clear, self.retrieve = self._bank.clear, self._bank.retrieve
            self.state_dict, self.load_state_dict = (
                self._bank.state_dict,
                self._bank.load_state_dict,
            )

        def add(self, images, uncertainty=None, labels=None, features=None):
            assert uncertainty.isfinite().all()
            self._bank.add(images, uncertainty, labels)

        def __len__(self):
            return len(self._bank)

    own, ours = adapt(make_net(), "rotta", Own()), adapt(make_net(), "rotta", build("fifo", 5))
    for adapter in (own, ours):
        adapter(make_images(40))
        with pytest.MonkeyPatch.context() as patched:
            logits = torch.full((30, 5), float("nan"))
            patched.setattr(type(adapter.network), "_forward", lambda *_: logits)  # noqa: B023
            assert adapter(make_images(30, seed=1)).isfinite().all()
        adapter(make_images(40, seed=2))
    assert equal(own.state_dict(), ours.state_dict())
    assert own.counts == ours.counts == {"updates": 1, "skipped": 1, "restored": 0}
