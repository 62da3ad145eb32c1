"""What must hold on a GPU; plain functions, so that they run where pytest is not installed.

``CHECKS`` has every check by name; each raises, or returns a word on what was found.
"""

import copy
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import in_runs
import kernels
import torch
from kernels import differ
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from training import check_training

from multipool.bench.train.optimizers import OPTIMIZERS
from multipool.engine import Adapter, Setup, configure
from multipool.memory import MEMORIES, build
from multipool.methods import METHODS, adapt, load
from multipool.ops import fused

CLASSES = 10
SIZES = (64, 1, 2, 3, 5, 16, 65, 200)
TAKERS = [name for name, kind in METHODS.items() if kind.takes_memory]
PAIRS = [(name, None) for name in METHODS] + [(n, b) for n in TAKERS for b in ("mcm", "mcm+")]
# No random views: their noise differs between a GPU and a CPU.
OPTIONS = {"cotta": {"confidence": 0.0}, "resitta": {"gate": 2.0}, "rmt": {"warmup_images": 64}}
OPTIONS |= {"sotta": {"confidence": 0.4}}  # or nothing would be remembered
device = torch.device("cuda")  # run.py may put another here


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "BatchNorm": nn.BatchNorm2d,
    "LayerNorm": lambda width: nn.LayerNorm([width, 16, 16]),
    "GroupNorm": lambda width: nn.GroupNorm(1, width),
    "InstanceNorm": lambda width: nn.InstanceNorm2d(width, affine=True),
}


def network(widths: tuple[int, int] = (7, 9), norm: str = "BatchNorm") -> nn.Module:
    """Return an untrained classifier; its vectors begin at odd addresses when laid end to end."""
    first, second = widths
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = nn.Sequential(
            nn.Conv2d(3, first, 3, padding=1, bias=False), NORMS[norm](first), nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=1, bias=False), NORMS[norm](second), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(second, CLASSES),
        )  # fmt: skip
        nn.init.normal_(net[-1].weight, std=3.0)
    return net.eval()


def images(seed: int, count: int = 64) -> Tensor:
    """Return images (B, 3, 16, 16) of 8-bit values, a colour each, on the device."""
    draw = torch.Generator().manual_seed(seed)
    colour = torch.randint(0, 156, (count, 3, 1, 1), generator=draw)
    grain = torch.randint(0, 100, (count, 3, 16, 16), generator=draw)
    return ((colour + grain).float() / 255).to(device)


def source() -> list[tuple[Tensor, Tensor]]:
    return [(images(77 + i, 64).cpu(), torch.arange(64) % CLASSES) for i in range(2)]


def make(
    name: str,
    memory: str | None = None,
    *,
    options=None,
    widths=(7, 9),
    norm: str = "BatchNorm",
    **more,
) -> Adapter:
    """Return an adapter on the device, with graphs or without."""
    kind = METHODS[name]
    # Compared bit for bit, or with a CPU: in one precision, unless a check asks for another.
    setup = Setup(num_classes=CLASSES, memory=memory, **{"precision": "float32", **more})
    bank = (
        build(memory or kind.prefers or kind.takes_memory, CLASSES) if kind.takes_memory else None
    )
    config = configure(kind.Config(), options or OPTIONS.get(name, {}), name)
    return Adapter(kind, network(widths, norm).to(device), config, setup, bank, source())


def recorded(adapter: Adapter) -> int:
    """Return how many graphs the adapter replays."""
    return sum(len(replayed._recordings) for replayed in adapter.method.passes)


def check_graphs(
    name: str,
    memory: str | None,
    sizes: tuple[int, ...],
    options=None,
    widths=(7, 9),
    norm="BatchNorm",
) -> str:
    """Replayed and launched one by one, a stream of batches gets the same answers."""
    if widths[0] % 16 == 0:
        fused.get_ready(device, torch.float32)
    with_graphs, without = (
        make(name, memory, options=options, widths=widths, norm=norm, graphs=g)
        for g in (True, False)
    )
    worst = 0.0
    for t in range(16 if len(sizes) == 1 else 4 * len(sizes)):
        x = images(t, sizes[t % len(sizes)])
        found, expected = with_graphs(x), without(x)
        assert found.shape == (len(x), CLASSES)
        assert found.isfinite().all(), "not finite"
        worst = max(worst, differ(found, expected))
    graphs = recorded(with_graphs)
    assert recorded(without) == 0, "graphs although they are off"
    assert graphs or device.type == "cpu" or not with_graphs.method.passes, "nothing was recorded"
    assert with_graphs.counts == without.counts
    assert not with_graphs.counts["skipped"], "updates failed and were undone"
    assert worst <= 1e-3, f"differs by {worst:.1e} of the largest logit"
    return f"{graphs} graphs, " + (f"differs by {worst:.0e}" if worst else "equal")


def check_saved(name: str, memory: str | None, precision: str = "float32") -> str:
    """Saved on the GPU it is loaded on a CPU and predicts the same; and back again."""
    adapter = make(name, memory, precision=precision)
    for t in range(5):
        adapter(images(t, 50))
    x = images(99)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        adapter.save(path)
        there = load(path, network(), source=source())
        expected, found = adapter.predict(x).cpu(), there.predict(x.cpu())
        agree = float((expected.argmax(1) == found.argmax(1)).float().mean())
        there(images(6, 50).cpu())
        there.save(path)
        back = load(path, network().to(device), source=source())
        assert back(x).isfinite().all()
        assert back.network.precision == adapter.network.precision
        assert there.network.precision == "float32"
    assert agree >= 0.95, f"only {agree:.0%} of the predictions agree"
    return f"{agree:.0%} agree, differs by {differ(found, expected):.0e}"


def check_copied(name: str) -> str:
    """A deep copy goes on as the original does."""
    adapter = make(name)
    for t in range(6):
        adapter(images(t))
    other = copy.deepcopy(adapter)
    worst = max(differ(other(images(t)), adapter(images(t))) for t in range(6, 10))
    assert worst <= 1e-3, f"differs by {worst:.1e}"
    return "equal" if worst == 0 else f"differs by {worst:.0e}"


def check_guard(name: str) -> str:
    """An update that is not finite is undone on the device; the stream is answered as before."""
    adapter = make(name, options={**OPTIONS.get(name, {}), "lr": sys.float_info.max})
    before = adapter.state_dict()
    for t in range(6):
        assert adapter(images(t)).isfinite().all()
    after = adapter.state_dict()
    moved = [k for k in before if k.startswith(("student", "teacher", "affine", "optimizer"))]
    assert all(torch.equal(before[k], after[k]) for k in moved), "an update was not undone"
    assert adapter.counts["skipped"] == adapter.counts["updates"] > 0
    return f"{adapter.counts['skipped']} undone"


def check_half(name: str, norm: str = "BatchNorm") -> str:
    """Passes in 16 bits run, and their answers stay finite."""
    graphs = 0
    for precision in ("bf16", "fp16"):
        adapter = make(name, precision=precision, norm=norm)
        for t in range(8):
            assert adapter(images(t)).isfinite().all()
        graphs += recorded(adapter)
    return f"{graphs} graphs"


def check_chosen() -> str:
    """By default methods on fused kernels compute in float16, but not a model that overflows."""
    large = network((16, 32))
    with (
        torch.no_grad()
    ):  # the same classifier, with activations of a million before its first norm
        large[0].weight.mul_(1e6)
        large[1].running_mean.mul_(1e6)
        large[1].running_var.mul_(1e12)
    nets = {name: network((16, 32)) for name in ("multipool", "rotta", "tent")}
    found = {
        name: adapt(net.to(device), name.partition(" ")[0]).network.precision
        for name, net in {**nets, "rotta of a model that overflows": large}.items()
    }
    capable = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    half = "fp16" if capable and fused.get_ready(device, torch.float16) else "float32"
    assert list(found.values()) == [half, half, "float32", "float32"], found
    return ", ".join(f"{name} {chosen}" for name, chosen in found.items())


class HostCopies(TorchDispatchMode):
    """Counts how often values travel from the device to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        given = [a for a in args if isinstance(a, Tensor) and a.device.type == device.type]
        name = func.overloadpacket.__name__
        copied = name in ("_to_copy", "copy_") and isinstance(found, Tensor) and not found.is_cuda
        if given and (copied or name in ("_local_scalar_dense", "nonzero")):
            self.count += 1
        return found


def check_one_copy(memory: str) -> str:
    """A bank takes a batch in with one copy to the host."""
    bank, doubt = build(memory, CLASSES), torch.rand(64, device=device)
    labels = torch.arange(64, device=device) % CLASSES
    bank.add(images(0), uncertainty=doubt, labels=labels)
    x = images(1)
    with HostCopies() as copies:
        bank.add(x, uncertainty=doubt, labels=labels)
    assert copies.count == 1 or device.type == "cpu", f"{copies.count} copies to the host"
    assert bank.retrieve(64).images.device.type == device.type
    return f"{copies.count} copy"


CHECKS: dict[str, Callable[[], str]] = {}
for _name, _bank in PAIRS:
    _with = _name if _bank is None else f"{_name} + {_bank}"
    CHECKS[f"graphs on and off: {_with}"] = partial(check_graphs, _name, _bank, (64,))
    CHECKS[f"every batch size: {_with}"] = partial(check_graphs, _name, _bank, SIZES)
    CHECKS[f"saved here, loaded on a CPU: {_with}"] = partial(check_saved, _name, _bank)
for _norm in [norm for norm in NORMS if norm != "BatchNorm"]:
    for _name in [n for n, kind in METHODS.items() if kind.needs_norm != "batchnorm"]:
        CHECKS[f"graphs on and off, {_norm}: {_name}"] = partial(
            check_graphs, _name, None, (64, 17), norm=_norm
        )
    for _name in ("tent", "cotta", "rotta"):
        CHECKS[f"half precision, {_norm}: {_name}"] = partial(check_half, _name, _norm)
_views = {"confidence": 1.0, "views": 4}
CHECKS["graphs on and off: cotta, with views"] = partial(check_graphs, "cotta", None, (64,), _views)
for _norm in ("BatchNorm", "GroupNorm"):
    CHECKS[f"graphs on and off, {_norm}: multipool, learning"] = partial(
        check_graphs, "multipool", None, (64,), {"lr": 0.004}, norm=_norm
    )
for _name in METHODS:
    CHECKS[f"copied: {_name}"] = partial(check_copied, _name)
    CHECKS[f"half precision: {_name}"] = partial(check_half, _name)
for _name in ("pl", "tent", "cotta", "tribe", "rotta", "petta", "resitta", "note"):
    CHECKS[f"undone: {_name}"] = partial(check_guard, _name)
for _name in [n for n, kind in METHODS.items() if kind.fuses]:
    CHECKS[f"fused or not: {_name}"] = partial(
        check_graphs, _name, None, (64, 64, 64, 17), widths=(16, 32)
    )
    CHECKS[f"saved here, loaded on a CPU, precision auto: {_name}"] = partial(
        check_saved, _name, None, "auto"
    )
CHECKS["precision auto"] = check_chosen
CHECKS["in runs of classes: multipool"] = lambda: in_runs.check_leaning(make, images, differ)
for _dtype in (torch.float32, torch.bfloat16, torch.float16):
    CHECKS[f"fused kernels: {_dtype}"] = lambda of=_dtype: kernels.check_kernels(device, of)
    CHECKS[f"fused kernels that learn: {_dtype}"] = lambda of=_dtype: kernels.check_learning(
        device, of
    )
CHECKS["fused views"] = lambda: kernels.check_views(device)
for _name in MEMORIES:
    CHECKS[f"one copy to the host: {_name}"] = partial(check_one_copy, _name)
for _name in OPTIMIZERS:
    CHECKS[f"training: {_name}"] = lambda name=_name: check_training(name, device)


def settle() -> None:
    """Make arithmetic exact enough to compare: full precision, the same kernels every time."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
