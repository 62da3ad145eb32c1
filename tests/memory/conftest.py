"""A naive multi-cluster memory, one sample at a time, straight from the design's sentences."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from multipool.memory.view import ClusterView, MemberView

sys.path.insert(0, str(Path(__file__).parent))  # for memory_streams


def describe(image, name, feature):
    """One descriptor from its definition, in float64, as a list of multiples of 2^-24."""
    if name == "feature":
        values = feature.double().tolist()
    else:
        x = image.double()
        if image.dtype == torch.uint8:
            x = (image.float() / 255).double()
        values = []
        for channel in x.numpy():
            if name == "pixel":
                mean = math.fsum(channel.ravel()) / channel.size
                values += [mean, math.fsum((channel.ravel() - mean) ** 2) / channel.size]
            elif name == "histogram":
                bins = [min(int(v * 8), 7) for v in channel.ravel()]
                values += [bins.count(b) / channel.size for b in range(8)]
            else:
                h, w = channel.shape
                for i in range(4):
                    rows = channel[i * h // 4 : -(-(i + 1) * h // 4)]
                    for j in range(4):
                        part = rows[:, j * w // 4 : -(-(j + 1) * w // 4)]
                        values.append(math.fsum(part.ravel()) / part.size)
    return [round(v * 2**24) / 2**24 for v in values]


def distance(a, b, name, precision):
    if name == "l1":
        return sum(abs(x - y) for x, y in zip(a, b, strict=True))
    if name == "cosine":
        aa, bb = sum(x * x for x in a), sum(y * y for y in b)
        if aa == 0 or bb == 0:
            return 0.0 if aa == bb else 1.0
        return 1 - sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(aa * bb)
    gap = [x - y for x, y in zip(a, b, strict=True)]
    if name == "mahalanobis" and precision is not None:
        turned = [
            sum(g * row[e] for g, row in zip(gap, precision, strict=True)) for e in range(len(gap))
        ]
        return math.sqrt(max(0.0, sum(t * g for t, g in zip(turned, gap, strict=True))))
    return math.sqrt(sum(g * g for g in gap))


class NaiveMemory:
    """Lists of dicts; every number is computed anew whenever it is needed."""

    def __init__(self, num_classes, capacity, clusters, threshold, **options):
        self.L, self.N, self.K, self.tau = num_classes, capacity, clusters, threshold
        self.o = {
            "descriptor": "pixel", "distance": "l2", "consolidation": "acc", "spawn": "always",
            "replacement": "always", "age_weight": 1.0, "uncertainty_weight": 1.0,
            "distance_weight": 1.0, "age_unit": "sample", "class_quota": None, "run_share": None,
            **options,
        }  # fmt: skip
        self.clusters, self.samples, self.calls = [], 0, 0
        self.seen = []
        self.total, self.products = 0.0, 0.0
        self.events = dict.fromkeys(("added", "spawned", "merged", "replaced", "rejected"), 0)

    def add(self, images, uncertainty, labels, features=None):
        for i, image in enumerate(images):
            index = self.samples if self.o["age_unit"] == "sample" else self.calls
            d = describe(image, self.o["descriptor"], None if features is None else features[i])
            item = {"image": image, "d": d, "u": float(uncertainty[i]), "label": int(labels[i])}
            self.seen.append(item)
            self._one({**item, "index": index, "serial": self.samples})
            self.samples += 1
            self.events["added"] += 1
            self.total, self.products = self.total + np.array(d), self.products + np.outer(d, d)
        self.calls += 1

    @property
    def now(self):
        return self.samples if self.o["age_unit"] == "sample" else self.calls

    def centroid(self, cluster):
        members = cluster["members"]
        return [
            sum(column) / len(members) for column in zip(*(m["d"] for m in members), strict=True)
        ]

    def gap(self, a, b):
        return distance(a, b, self.o["distance"], self.precision)

    def _precision(self):
        n, D = self.samples, len(self.total) if self.samples else 0
        if self.o["distance"] != "mahalanobis" or n < 2 * D or n == 0:
            return None
        # Biased, from plain sums in stream order: ties depend on the last bit.
        mean = self.total / n
        S = self.products / n - np.outer(mean, mean)
        if np.trace(S) <= 1e-14:
            return None
        return np.linalg.inv(0.9 * S + 0.1 * np.trace(S) / D * np.eye(D)).tolist()

    def _one(self, item):
        self.precision = self._precision()
        if not self.clusters:
            return self._spawn(item)
        gaps = [self.gap(item["d"], self.centroid(c)) for c in self.clusters]
        k = gaps.index(min(gaps))
        if gaps[k] > self.tau:
            if len(self.clusters) < self.K:
                return self._spawn(item)
            if self._consolidate(gaps[k]):
                return self._spawn(item)
        return self._assign(self.clusters[k], item)

    def _spawn(self, item):
        self.clusters.append(
            {"members": [item], "created": item["index"], "last_used": item["index"]}
        )
        self.events["spawned"] += 1

    def score(self, item, index, centre):
        o = self.o
        age = index - item["index"]
        return (
            o["age_weight"] / (1 + math.exp(-age / self.N))
            + o["uncertainty_weight"] * item["u"] / math.log(self.L)
            + o["distance_weight"] * self.gap(item["d"], centre)
        )

    def doubtful(self, item):
        """Whether a run of another label is on, and half of the last N are as certain or more."""
        if self.o["run_share"] is None or item["label"] < 0:
            return False
        last = self.seen[-self.N :]
        labels = [m["label"] for m in last]
        runs = [c for c in range(self.L) if labels.count(c) >= self.o["run_share"] * self.N]
        as_certain = [m for m in last if m["u"] <= item["u"]]
        return runs not in ([], [item["label"]]) and len(as_certain) > len(last) / 2

    def _assign(self, cluster, item):
        cluster["last_used"] = item["index"]
        members, quota = cluster["members"], self.o["class_quota"]
        same = [m for m in members if m["label"] == item["label"]]
        rivals = None
        if quota is not None and item["label"] >= 0 and len(same) >= quota:
            rivals = same
        elif len(members) == self.N:
            rivals = members
        if rivals is not None:
            centre = self.centroid(cluster)
            scores = [self.score(m, item["index"], centre) for m in rivals]
            worst = rivals[scores.index(max(scores))]  # rivals are oldest first
            newcomer = self.score(item, item["index"], centre)
            refused = self.o["replacement"] == "if_worse" and not max(scores) > newcomer
            if refused or self.doubtful(item):
                self.events["rejected"] += 1
                return
            cluster["members"] = members = [m for m in members if m is not worst]
            self.events["replaced"] += 1
        members.append(item)

    def _consolidate(self, newcomer_gap):
        K, name = len(self.clusters), self.o["consolidation"]
        if K == 1 or name == "none":
            return False
        centres = [self.centroid(c) for c in self.clusters]
        if name in ("acc", "gcc"):
            pairs = [
                (i, j) for i in range(K) for j in range(i + 1, K) if name == "gcc" or j == i + 1
            ]
        else:
            key = (
                (lambda c: len(c["members"])) if name == "smallest" else (lambda c: c["last_used"])
            )
            values = [key(c) for c in self.clusters]
            one = values.index(min(values))
            pairs = [(min(one, j), max(one, j)) for j in range(K) if j != one]
        gaps = [self.gap(centres[j], centres[i]) for i, j in pairs]
        i, j = pairs[gaps.index(min(gaps))]
        if self.o["spawn"] == "gated" and not newcomer_gap > min(gaps):
            return False
        a, b = self.clusters[i], self.clusters.pop(j)
        union = sorted(a["members"] + b["members"], key=lambda m: (m["u"], -m["serial"]))
        kept, quota = [], self.o["class_quota"]
        for m in union:
            full = quota is not None and m["label"] >= 0
            full = full and sum(k["label"] == m["label"] for k in kept) >= quota
            if len(kept) < self.N and not full:
                kept.append(m)
        a["members"] = sorted(kept, key=lambda m: m["serial"])
        a["created"] = min(a["created"], b["created"])
        a["last_used"] = max(a["last_used"], b["last_used"])
        self.events["merged"] += 1
        return True


@pytest.fixture(scope="session")
def naive():
    return NaiveMemory


def make_view(sizes, points=None, last_used=None, seed=0):
    """Clusters of these sizes, whose members came in any order and differ in all that is seen."""
    rng, count, members = np.random.default_rng(seed), len(sizes), sum(sizes)
    serials = rng.permutation(members)
    owner = np.arange(count).repeat(sizes)
    serials = serials[np.lexsort((serials, owner))]
    return ClusterView(
        sizes=np.array(sizes),
        centroids=np.zeros((count, 1)) if points is None else np.array(points, float)[:, None],
        created=np.arange(count),
        last_used=np.zeros(count, np.int64) if last_used is None else np.array(last_used),
        members=MemberView(
            owner=owner,
            serials=serials,
            ages=members - serials,
            uncertainty=rng.random(members),
            labels=rng.integers(-1, 9, members),
            slots=np.arange(members),
        ),
    )


@pytest.fixture(scope="session")
def view():
    return make_view
