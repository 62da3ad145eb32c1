"""What a method keeps lies where its model does, or the method is refused before it runs."""

import re
from types import SimpleNamespace

import pytest
import torch

from multipool.engine import Adapter, Setup, adapter
from multipool.engine.state import check_places
from multipool.memory import build
from multipool.methods import METHODS
from multipool.ops import copies


class Counting(METHODS["tent"]):
    """TENT with a count of its own, on whatever device the test says."""

    place = "cpu"
    inside = False

    def keeps(self):
        counts = torch.zeros(3, device=self.place)
        own = SimpleNamespace(state={"seen": counts}) if self.inside else counts
        return {**super().keeps(), "counts": own}


def make(make_net, guard=False, **facts):
    kind = type("Counting", (Counting,), {"name": "counting", **facts})
    return Adapter(kind, make_net(), kind.Config(), Setup(num_classes=5, guard=guard))


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize(("inside", "name"), [(False, "counts"), (True, "counts.seen")])
def test_a_tensor_elsewhere_is_refused_by_its_name(make_net, guard, inside, name):
    sentence = (
        f"method 'counting' keeps '{name}' on meta, but the model is on cpu, where every update "
        "would be undone; make it with device=self.device"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make(make_net, guard, place="meta", inside=inside)


def test_tensors_beside_the_model_are_taken(make_net, make_images):
    made = make(make_net, guard=True)
    made(make_images(8))
    assert made.counts["updates"] == 1
    assert made.counts["skipped"] == 0


def test_an_empty_tensor_has_no_values_to_be_elsewhere():
    method = SimpleNamespace(name="x", device=torch.device("meta"))
    check_places(method, {"none": torch.zeros(0)})
    with pytest.raises(ValueError, match="keeps 'one' on cpu, but the model is on meta"):
        check_places(method, {"none": torch.zeros(0), "one": torch.zeros(())})


# Those that read source images need values to begin from, which the meta device has not.
WITHOUT_SOURCE = [name for name, kind in METHODS.items() if not kind.uses_source(kind.Config())]


@pytest.mark.parametrize("name", WITHOUT_SOURCE)
def test_our_own_methods_keep_their_tensors_beside_a_model_elsewhere(make_net, name, monkeypatch):
    """The meta device stands for a GPU: whatever is made without a device stays behind."""
    monkeypatch.setattr(adapter, "torch_generator", lambda seed, device: torch.Generator())
    monkeypatch.setattr(adapter.State, "snapshot", lambda self: {})  # meta tensors have no values
    monkeypatch.setattr(copies, "_check_weights", lambda model: None)  # which is refused elsewhere
    kind = METHODS[name]
    bank = build(kind.takes_memory, 5) if kind.takes_memory else None
    made = Adapter(kind, make_net().to("meta"), kind.Config(), Setup(num_classes=5), bank)
    assert {tensor.device.type for tensor in made.state.tensors.values()} <= {"meta"}
    assert made.state.tensors or name in ("source", "bn", "lame")
