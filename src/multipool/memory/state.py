"""A multi-cluster memory's decisions as flat tensors, and back with every number checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.core import check_plain
from multipool.memory.checks import MOST_SEEN
from multipool.memory.descriptors import DESCRIPTORS
from multipool.memory.holdings import Holdings
from multipool.memory.options import MultiClusterOptions
from multipool.memory.organiser import Organiser

_Kinds = dict[str, tuple[torch.dtype, int]]  # dtype and number of axes
_KINDS: _Kinds = {
    "descriptors": (torch.float64, 2),
    "uncertainty": (torch.float64, 1),
    **{name: (torch.int64, 1) for name in ("serial", "index", "labels")},
    **{name: (torch.int64, 1) for name in ("sizes", "created", "last_used")},
    **{name: (torch.int64, 0) for name in ("next_serial", "now")},
}
_COVARIANCE: _Kinds = {
    "seen_count": (torch.int64, 0),
    "seen_total": (torch.float64, 1),
    "seen_products": (torch.float64, 2),
}

_RUN: _Kinds = {
    "recent_labels": (torch.int64, 1),
    "recent_uncertainty": (torch.float64, 1),
}


def dump(organiser: Organiser) -> dict[str, Tensor]:
    """Return the organiser's state: members ``(M,)`` as they are listed, clusters ``(K,)``."""
    held, seen = organiser.holdings, organiser.covariance
    slots, _ = held.listed()
    used = slice(len(held))
    arrays = {
        "descriptors": held.points[slots],
        "uncertainty": held.uncertainty[slots],
        "serial": held.serials[slots],
        "index": held.indices[slots],
        "labels": held.labels[slots],
        "sizes": held.sizes[used],
        "created": held.created[used],
        "last_used": held.last_used[used],
        "next_serial": np.array(organiser.serial, dtype=np.int64),
        "now": np.array(organiser.now, dtype=np.int64),
    }
    if seen is not None:
        arrays["seen_count"] = np.array(seen.count, dtype=np.int64)
        arrays["seen_total"], arrays["seen_products"] = seen.total, seen.products
    if organiser.run is not None:
        arrays["recent_labels"] = organiser.run.labels
        arrays["recent_uncertainty"] = organiser.run.uncertainty
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def read(organiser: Organiser, state: Mapping[str, Tensor]) -> Organiser:
    """Put a new organiser into the saved state, members in slots 0 to M-1, or ``ValueError``."""
    options = organiser.options
    arrays = _arrays(options, state)
    width = arrays["descriptors"].shape[1]
    for sentence, holds in _laws(options, arrays):
        if not holds:
            raise ValueError(f"the saved memory does not fit: {sentence}")
    _check_width(options, state["images"], width)
    organiser.serial, organiser.now = int(arrays["next_serial"]), int(arrays["now"])
    if organiser.run is not None:
        organiser.run.labels = arrays["recent_labels"]
        organiser.run.uncertainty = arrays["recent_uncertainty"]
    if organiser.serial == 0:
        return organiser
    organiser.widen(width)
    if organiser.covariance is not None:
        organiser.covariance.count = int(arrays["seen_count"])
        organiser.covariance.total[:] = arrays["seen_total"]
        organiser.covariance.products[:] = arrays["seen_products"]
    _fill(organiser.holdings, arrays)
    return organiser


def _fill(held: Holdings, a: dict[str, NDArray[Any]]) -> None:
    """Put saved members into the first slots, in the order in which they were listed."""
    members, clusters = len(a["serial"]), len(a["sizes"])
    held.points[:members], held.uncertainty[:members] = a["descriptors"], a["uncertainty"]
    held.serials[:members], held.indices[:members] = a["serial"], a["index"]
    held.labels[:members] = a["labels"]
    held.count[0] = clusters
    held.sizes[:clusters], held.created[:clusters] = a["sizes"], a["created"]
    held.last_used[:clusters] = a["last_used"]
    slots = np.split(np.arange(members, dtype=np.int64), np.cumsum(a["sizes"])[:-1])
    for cluster, own in enumerate(slots[:clusters]):
        held.members[cluster, : len(own)] = own
        held.totals[cluster] = held.points[own].sum(axis=0)


def check_keys(state: Mapping[str, Tensor], names: set[str]) -> None:
    """Raise ``ValueError`` unless the state holds exactly these names, all of them tensors."""
    if not isinstance(state, Mapping):
        raise ValueError(f"the saved memory must be a mapping, got {type(state).__name__}")
    if set(state) != names:
        missing, extra = sorted(names - set(state)), sorted(set(state) - names)
        raise ValueError(f"the saved memory lacks {missing} and has unexpected {extra}")
    for name in names:
        if not isinstance(state[name], Tensor):
            raise ValueError(f"saved {name} must be a Tensor, got {type(state[name]).__name__}")
        check_plain(f"saved {name}", state[name])


def host(state: Mapping[str, Tensor], name: str, dtype: torch.dtype, ndim: int) -> NDArray[Any]:
    """Return one saved array on the host; the type and number of axes must be as saved."""
    value = state[name]
    if value.dtype != dtype or value.ndim != ndim:
        raise ValueError(
            f"saved {name} must be {dtype} with {ndim} axes, got {value.dtype} with {value.ndim}"
        )
    array = value.detach().cpu().numpy().copy()
    if not np.isfinite(array).all():
        raise ValueError(f"saved {name} must be finite, got NaN or infinity")
    return array


def _check_width(options: MultiClusterOptions, images: Tensor, width: int) -> None:
    """Refuse descriptors of another kind than this memory would compute from such images."""
    if options.descriptor == "feature" or images.ndim != 4 or not 1 <= images.shape[1] <= 2**16:
        return  # features have any width; other images are refused where they are stored
    wanted = DESCRIPTORS[options.descriptor](torch.zeros(1, images.shape[1], 8, 8)).shape[1]
    if width != wanted:
        raise ValueError(
            f"the saved memory does not fit: '{options.descriptor}' has {wanted} numbers a sample, "
            f"got {width}"
        )


def _arrays(options: MultiClusterOptions, state: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    kinds = dict(_KINDS)
    if options.distance == "mahalanobis":
        kinds |= _COVARIANCE
    if options.run_share is not None:
        kinds |= _RUN
    check_keys(state, {"images", "dtype", "random", *kinds})
    return {name: host(state, name, dtype, ndim) for name, (dtype, ndim) in kinds.items()}


def _laws(options: MultiClusterOptions, a: dict[str, NDArray[Any]]) -> Iterator[tuple[str, bool]]:
    """Yield each law of a sound state with whether it holds, in an order safe to compute."""
    members, clusters, sizes = len(a["serial"]), len(a["sizes"]), a["sizes"]
    yield f"at most {options.clusters} clusters, got {clusters}", clusters <= options.clusters
    fits = bool((sizes >= 1).all() and (sizes <= options.capacity).all())
    yield f"1 to {options.capacity} members a cluster", fits
    yield "sizes must add up to the number of members", int(sizes.sum()) == members
    rows = ("index", "labels", "uncertainty", "descriptors")
    yield "one row a member everywhere", all(len(a[name]) == members for name in rows)
    times = ("created", "last_used")
    yield "one entry a cluster everywhere", all(len(a[name]) == clusters for name in times)
    labels = np.concatenate([a[name] for name in ("labels", "recent_labels") if name in a])
    known = (labels >= -1) & (labels < options.num_classes)
    yield f"labels from -1 to {options.num_classes - 1}", bool(known.all())
    if options.run_share is not None:
        seen = min(options.capacity - 1, int(a["next_serial"]))
        lengths = {len(a[name]) for name in _RUN}
        yield f"the last {seen} samples must be remembered", lengths == {seen}
    grid = a["descriptors"] * 2.0**24
    yield "descriptors must be multiples of 2^-24", bool((grid == np.round(grid)).all())
    yield from _times(options, a)
    if options.distance == "mahalanobis":
        width = a["descriptors"].shape[1]
        fits = a["seen_total"].shape == (width,) and a["seen_products"].shape == (width, width)
        yield "the covariance must have the width of the descriptors", fits
        yield "the covariance counts every sample", int(a["seen_count"]) == int(a["next_serial"])


def _times(options: MultiClusterOptions, a: dict[str, NDArray[Any]]) -> Iterator[tuple[str, bool]]:
    """Yield the laws of order: what was first, what can have happened by now."""
    serial, index, now = a["serial"], a["index"], int(a["now"])
    by_sample = options.age_unit == "sample"
    seen = int(a["next_serial"])
    yield f"0 to 2^53 samples seen, got {seen}", 0 <= seen <= MOST_SEEN
    fits = now == seen if by_sample else 0 <= now <= seen
    yield "now and next_serial must fit together", fits
    unique = len(np.unique(serial)) == len(serial)
    past = bool(((serial >= 0) & (serial < a["next_serial"])).all())
    yield "serial numbers must be unique and in the past", unique and past
    owner = np.arange(len(a["sizes"]), dtype=np.int64).repeat(a["sizes"])
    ordered = np.diff(serial)[np.diff(owner) == 0]
    yield "members must be in order of arrival", bool((ordered > 0).all())
    if by_sample:
        yield "index and serial must be equal", bool((index == serial).all())
    created, used = a["created"], a["last_used"]
    yield "clusters must be in order of creation", bool((np.diff(created) >= by_sample).all())
    sound = (created >= 0) & (created <= used) & (used < now)
    yield "clusters must be created, then used, in the past", bool(sound.all())
    inside = (index >= created[owner]) & (index <= used[owner])
    yield "members must have come while their cluster was in use", bool(inside.all())
