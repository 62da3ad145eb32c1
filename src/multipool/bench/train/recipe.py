"""Make a source model: its data, its training, and the file that says how it was made."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from multipool import models
from multipool.bench.train.train import (
    TrainConfig,
    TrainProgress,
    error_percent,
    round_to_half,
    train,
)
from multipool.core import ImageSet, lookup, torch_generator
from multipool.data import load as open_dataset
from multipool.data import shapes
from multipool.ops.device import resolve

SHAPES_TEST = 2000  # images that the clean error is measured on


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a source model, and so its file; the command line says the same."""

    dataset: str = "shapes"
    model: str = "wrn10-1"
    config: TrainConfig = TrainConfig(crop=2)
    images: int = 20000  # drawn for training; only `shapes` can choose
    data_dir: str | None = None
    size: int | None = None  # side in pixels; only `folder` can choose
    half: bool = False  # store half precision
    init: str | None = None  # weights to start from, file or name, instead of random ones

    def command(self) -> str:
        """Return the command that makes this model.

        >>> Recipe(config=TrainConfig(epochs=3)).command()[:53]
        'multipool train --dataset shapes --model wrn10-1 --ep'
        """
        config = self.config
        words = ["multipool", "train", "--dataset", self.dataset, "--model", self.model]
        words += ["--epochs", str(config.epochs), "--batch-size", str(config.batch_size)]
        words += ["--lr", f"{config.lr:g}", "--weight-decay", f"{config.weight_decay:g}"]
        words += ["--crop", str(config.crop), "--augmix" if config.augmix else "--no-augmix"]
        words += ["--jitter"] if config.jitter else []
        words += ["--randaugment"] if config.randaugment else []
        for option in ("optimizer", "warmup", "smoothing", "mix", "precision"):
            if (value := getattr(config, option)) != getattr(TrainConfig, option):
                words += [f"--{option}", f"{value:g}" if isinstance(value, float) else value]
        if self.dataset == "shapes":
            words += ["--images", str(self.images)]
        if self.size is not None:
            words += ["--size", str(self.size)]
        words += ["--half"] if self.half else []
        words += ["--init", Path(self.init).name] if self.init else []
        return shlex.join([*words, "--seed", str(config.seed)])


@dataclass(frozen=True)
class SourceData:
    """Clean images to learn from and to be judged on."""

    train: ImageSet
    test: ImageSet
    num_classes: int


def _shapes(recipe: Recipe) -> SourceData:
    """Return the embedded images."""
    learn = shapes.draw("train", recipe.images)
    return SourceData(learn, shapes.draw("test", SHAPES_TEST), shapes.NUM_CLASSES)


def _stored(name: str) -> Callable[[Recipe], SourceData]:
    """Return a reader of the clean images of a dataset by its name in the data room."""

    def read(recipe: Recipe) -> SourceData:
        dataset = open_dataset(name, recipe.data_dir, size=recipe.size)
        learn, judge = (dataset.source(split).whole() for split in ("train", "test"))
        return SourceData(learn, judge, dataset.num_classes)

    return read


def _folder(recipe: Recipe) -> SourceData:
    """Return the user's source images, a random tenth of them held out to be judged on."""
    dataset = open_dataset("folder", recipe.data_dir, size=recipe.size)
    everything = dataset.source().whole()
    order = torch.randperm(len(everything), generator=torch_generator(recipe.config.seed))
    held_out = max(1, len(everything) // 10)
    if held_out == len(everything):
        raise ValueError("training needs at least 2 source images, got 1")
    learn, judge = everything.take(order[held_out:]), everything.take(order[:held_out])
    return SourceData(learn, judge, dataset.num_classes)


SOURCES: dict[str, Callable[[Recipe], SourceData]] = {
    "shapes": _shapes,
    "cifar10": _stored("cifar10-c"),
    "cifar100": _stored("cifar100-c"),
    "folder": _folder,
}


def _start(recipe: Recipe, num_classes: int) -> nn.Module:
    """Return the model to train: new, or the one that the recipe starts from.

    One with another number of classes gets a new last layer; all its layers are trained on.
    """
    seed = recipe.config.seed
    if recipe.init is None:
        return models.build(recipe.model, num_classes, seed=seed)
    model = models.load(recipe.init, architecture=recipe.model)
    if models.classifier(model).out_features == num_classes:
        return model
    return models.with_new_head(model, num_classes, seed)


def make_source(
    recipe: Recipe,
    out: str | Path,
    *,
    device: str = "cpu",
    resume: bool = False,
    report: Callable[[TrainProgress], None] | None = None,
) -> dict[str, str]:
    """Train the model of ``recipe``, write it to ``out`` and return the file's metadata.

    While it trains, the state is in ``out`` with ``.checkpoint`` appended, removed at the end.
    """
    out = Path(out)
    if out.suffix != ".safetensors":
        raise ValueError(f"out must be a .safetensors file, got {out.name!r}")
    read = lookup(SOURCES, recipe.dataset, "dataset")
    lookup(models.MODELS, recipe.model, "model")
    place = resolve(device)
    out.parent.mkdir(parents=True, exist_ok=True)  # or fail now, not after the first epoch
    data = read(recipe)
    model = _start(recipe, data.num_classes)
    checkpoint = out.with_name(out.name + ".checkpoint")
    train(
        model,
        data.train,
        recipe.config,
        device=place,
        checkpoint=checkpoint,
        resume=resume,
        report=report,
    )
    if recipe.half:
        round_to_half(model)
    said = {
        "architecture": recipe.model,
        "dataset": recipe.dataset,
        "clean_error_percent": f"{error_percent(model, data.test):.2f}",
        "command": recipe.command(),
        "seed": str(recipe.config.seed),
    }
    if recipe.init is not None:
        said["init_command"] = models.metadata(recipe.init).get("command", "")
    models.save(model, out, said, half=recipe.half)
    checkpoint.unlink(missing_ok=True)
    return models.metadata(out)
