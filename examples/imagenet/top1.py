"""How many clean validation pictures a model gets right: ``top1.py DATA CLASSES WEIGHTS [N]``.

``DATA/val/<class>/*.JPEG``; CLASSES lists the class folders in label order. Pictures are scaled to
256 and cut to 224 pixels. N takes so many, spread evenly over the classes, the same every time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from multipool import models
from multipool.data import DATASETS, DataOptions
from multipool.data.subset import balanced_rows

BATCH = 16


@torch.no_grad()
def top1(data: str, classes: str, weights: str, count: int | None = None) -> float:
    """Return the share of right answers in per cent."""
    own = f"{Path(__file__).with_name('resnet50.py')}:factory"
    model = models.load(weights, num_classes=1000, architecture=own)
    options = DataOptions(data, class_list=classes)
    pictures = DATASETS["imagenet-c"](options).source("test")
    rows = balanced_rows(pictures.labels, count)
    right = 0
    for part in np.array_split(rows, max(1, len(rows) // BATCH)):
        answers = model(pictures.read(part).float() / 255).argmax(1).numpy()
        right += int((answers == pictures.labels[part]).sum())
    print(f"{right} of {len(rows)} right: {100 * right / len(rows):.2f} %")
    return 100 * right / len(rows)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: python top1.py DATA CLASSES WEIGHTS [N]")
    top1(*sys.argv[1:4], int(sys.argv[4]) if len(sys.argv) == 5 else None)
