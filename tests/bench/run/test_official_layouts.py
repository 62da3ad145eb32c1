"""One run from end to end on the official layouts of ImageNet-C and DomainNet-126, at 224 px."""

from __future__ import annotations

import io

import numpy as np
import pytest

from multipool import models
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.runner import run

CORRUPTIONS = ("fog", "snow")


def jpeg(seed: int) -> bytes:
    """Return a JPEG of random coarse blocks, 256 px wide."""
    from PIL import Image

    blocks = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(blocks).resize((256, 256)).save(out, "JPEG")
    return out.getvalue()


@pytest.fixture
def weights(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))

    def make(num_classes: int) -> str:
        path = tmp_path / "model.safetensors"
        models.save(models.build("wrn10-1", num_classes), path, {"architecture": "wrn10-1"})
        return str(path)

    return make


def test_a_run_on_imagenet_c_folders(tmp_path, weights):
    home = tmp_path / "ImageNet-C"
    for c, corruption in enumerate(CORRUPTIONS):
        for k in range(10):
            folder = home / corruption / "5" / f"n{k:08d}"
            folder.mkdir(parents=True)
            (folder / "ILSVRC2012_val_00000001.JPEG").write_bytes(jpeg(10 * c + k))
    found = run(
        Experiment(
            dataset="imagenet-c",
            method="rotta",
            memory="mcm+",
            data_dir=str(tmp_path),
            weights=weights(10),
            domains=CORRUPTIONS,
            batch_size=8,
            options={"update_every": 8},
            device="cpu",
        )
    )
    assert found.complete
    assert set(found.errors) == set(CORRUPTIONS)
    assert 0 <= found.error <= 100
    assert found.counts["updates"] == 2


def test_a_run_on_domainnet_lists(tmp_path, weights):
    home = tmp_path / "domainnet126"
    for d, domain in enumerate(("real", "clipart", "painting", "sketch")):
        lines = []
        for i in range(6):
            name = f"{domain}/class_{i}/{i}.jpg"
            (home / name).parent.mkdir(parents=True)
            (home / name).write_bytes(jpeg(10 * d + i))
            lines.append(f"{name} {20 * i}")
        (home / f"{domain}_list.txt").write_text("\n".join(lines) + "\n")
    found = run(
        Experiment(
            dataset="domainnet126",
            method="petta",
            memory="mcm",
            data_dir=str(tmp_path),
            weights=weights(126),
            batch_size=8,
            options={"update_every": 8},
            device="cpu",
        )
    )
    assert found.complete
    assert list(found.errors) == ["clipart", "painting", "sketch"]
    assert found.counts["updates"] == 2
