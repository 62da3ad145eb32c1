"""Saved in the middle of a stream, every adapter goes on in another process as if nothing was."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from multipool.core import read_tensors, write_tensors
from multipool.memory import MEMORIES, build
from multipool.methods import METHODS, adapt, load

SCRIPT = Path(__file__).with_name("resumed.py")
_spec = importlib.util.spec_from_file_location("resumed", SCRIPT)
resumed = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(resumed)

TAKERS = [name for name, kind in METHODS.items() if kind.takes_memory]
CASES = [(name, None) for name in METHODS] + [(name, bank) for name in TAKERS for bank in MEMORIES]


def test_all_methods_and_banks_go_on_bit_for_bit_in_another_process(tmp_path):
    expected = {}
    for name, bank in [*CASES, ("rotta", "own")]:
        memory = build("fifo", 5, capacity=20) if bank == "own" else bank
        adapter = adapt(resumed.model(), name, memory, source=resumed.source(), seed=1)
        for seed in range(3):  # 150 samples: in the middle between two updates
            adapter(resumed.images(seed))
        path = tmp_path / f"{name} {bank}.safetensors"
        adapter.save(path)
        expected[path] = resumed.following(adapter)
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True)
    found = {path: torch.load(path.with_suffix(".out"), weights_only=True) for path in expected}
    different = [path.stem for path in expected if not torch.equal(expected[path], found[path])]
    assert different == []
    assert len(expected) == len(METHODS) + len(TAKERS) * len(MEMORIES) + 1


@pytest.mark.parametrize("version", [3, 99, "x", None])
def test_a_state_of_another_version_is_refused_in_a_sentence(tmp_path, version):
    path = tmp_path / "state.safetensors"
    adapt(resumed.model(), "tent").save(path)
    tensors, metadata = read_tensors(path)
    header = {**json.loads(metadata["multipool"]), "version": version}
    write_tensors(path, tensors, {**metadata, "multipool": json.dumps(header)})
    with pytest.raises(ValueError, match=rf"has version {version}, this multipool reads"):
        load(path, resumed.model())
