"""What is known about each dataset: where it comes from, how large it is, under which terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """One file at its official place; ``goal`` is what it becomes, relative to the data folder.

    An archive is unpacked into ``into`` and gives ``goal``; any other file is moved to ``goal``.
    """

    file: str
    url: str
    md5: str
    size: int  # bytes
    goal: str
    into: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.url.startswith("https://") and not self.sha256:
            raise ValueError(f"{self.url} must be https, or its file have a SHA-256 sum")

    @property
    def checksum(self) -> str:
        """Return the strongest sum that is known, as ``kind:digits``."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}"

    @property
    def archive(self) -> bool:
        """Return whether the file has to be unpacked."""
        return self.file.endswith((".tar", ".tar.gz", ".zip"))


@dataclass(frozen=True)
class Entry:
    """A dataset: what it is, its terms, its official files, and what cannot be fetched."""

    about: str
    licence: str
    downloads: tuple[Download, ...] = ()
    manual: str = ""  # what a person has to do by hand, one sentence

    @property
    def size(self) -> int:
        """Return the bytes to fetch."""
        return sum(download.size for download in self.downloads)


def _zenodo(record: int, file: str, md5: str, size: int, goal: str, into: str = "") -> Download:
    url = f"https://zenodo.org/records/{record}/files/{file}?download=1"
    return Download(file, url, md5, size, goal, into)


def _imagenet_c(file: str, md5: str, size: int, first: str) -> Download:
    return _zenodo(2235448, file, md5, size, f"ImageNet-C/{first}", "ImageNet-C")


def _domainnet(domain: str, place: str, md5: str, size: int) -> Download:
    url = f"https://csr.bu.edu/ftp/visda/2019/multi-source/{place}{domain}.zip"
    home = "domainnet126"
    return Download(f"{domain}.zip", url, md5, size, f"{home}/{domain}", home)


def _domainnet_list(domain: str, md5: str, size: int) -> Download:
    file = f"{domain}_list.txt"
    commit = "c3c8b880131f2658d6fd0d5ed14d71f326174d57"
    home = f"https://raw.githubusercontent.com/DianCh/AdaContrast/{commit}/datasets/domainnet-126"
    return Download(file, f"{home}/{file}", md5, size, f"domainnet126/{file}")


_CIFAR = "none stated for CIFAR; CC BY 4.0 for the corrupted copy"
_TORONTO = "https://www.cs.toronto.edu/~kriz"

CATALOG: dict[str, Entry] = {
    "shapes-c": Entry("100 classes of drawn shapes at 32 px, made by the package", "Apache-2.0"),
    "cifar10-c": Entry(
        "CIFAR-10 test set under 19 corruptions, 10 classes, 32 px",
        _CIFAR,
        (
            _zenodo(
                2535967,
                "CIFAR-10-C.tar",
                "56bf5dcef84df0e2308c6dcbcbbd8499",
                2_918_471_680,
                "CIFAR-10-C",
            ),
            Download(
                "cifar-10-python.tar.gz",
                f"{_TORONTO}/cifar-10-python.tar.gz",
                "c58f30108f718f92721af3b95e74349a",
                170_498_071,
                "cifar-10-batches-py",
            ),
        ),
    ),
    "cifar100-c": Entry(
        "CIFAR-100 test set under 19 corruptions, 100 classes, 32 px",
        _CIFAR,
        (
            _zenodo(
                3555552,
                "CIFAR-100-C.tar",
                "11f0ed0f1191edbf9fa23466ae6021d3",
                2_918_473_216,
                "CIFAR-100-C",
            ),
            Download(
                "cifar-100-python.tar.gz",
                f"{_TORONTO}/cifar-100-python.tar.gz",
                "eb9058c3a382ffc7106e4002c42a8d85",
                169_001_437,
                "cifar-100-python",
            ),
        ),
    ),
    "tiny-imagenet-c": Entry(
        "Tiny-ImageNet-200 validation set under 15 corruptions, 200 classes, 64 px",
        "ImageNet's terms (non-commercial research); CC BY 4.0 for the corrupted copy",
        (
            _zenodo(
                8206060,
                "Tiny-ImageNet-C.tar",
                "f9c9a9dbdc11469f0b850190f7ad8be1",
                1_794_775_040,
                "Tiny-ImageNet-C",
            ),
            Download(
                "tiny-imagenet-200.zip",
                "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "90528d7ca1a48142e341f4ef8d21d0de",
                248_100_043,
                "tiny-imagenet-200",
            ),
        ),
    ),
    "imagenet-c": Entry(
        "ImageNet validation set under 15 corruptions, 1000 classes, 224 px",
        "ImageNet's terms (non-commercial research); CC BY 4.0 for the corrupted copy",
        (
            _imagenet_c(
                "noise.tar", "e80562d7f6c3f8834afb1ecf27252745", 22_565_673_785, "gaussian_noise"
            ),
            _imagenet_c(
                "blur.tar", "2d8e81fdd8e07fef67b9334fa635e45c", 7_112_704_951, "defocus_blur"
            ),
            _imagenet_c("weather.tar", "33ffea4db4d93fe4a428c40a6ce0c25d", 12_797_438_995, "fog"),
            _imagenet_c(
                "digital.tar", "89157860d7b10d5797849337ca2e5c03", 7_757_510_705, "contrast"
            ),
        ),
        "the clean pictures need an account at image-net.org: put the validation set there as "
        "val/<wnid>/*.JPEG (and train/<wnid>/*.JPEG for methods that need source data)",
    ),
    "domainnet126": Entry(
        "126 classes of DomainNet: real (source), clipart, painting, sketch",
        "fair use for research; see ai.bu.edu/M3SDA",
        (
            _domainnet("real", "", "dcc47055e8935767784b7162e7c7cca6", 6_047_000_000),
            _domainnet(
                "clipart", "groundtruth/", "cd0d8f2d77a4e181449b78ed62bccf1e", 1_360_000_000
            ),
            _domainnet(
                "painting", "groundtruth/", "1ae32cdb4f98fe7ab5eb0a351768abfd", 3_680_000_000
            ),
            _domainnet("sketch", "", "658d8009644040ff7ce30bb2e820850f", 2_710_000_000),
            _domainnet_list("real", "d985145a809d0827909f60f4f1cb7390", 2_503_856),
            _domainnet_list("clipart", "5e6a74972af17b0aefeff289871271f0", 782_730),
            _domainnet_list("painting", "0b15c9105ca6d244d3a6acbfd2f567d6", 1_312_543),
            _domainnet_list("sketch", "9b19a9de144b44a961c1e3cca59b26b0", 963_323),
        ),
    ),
    "folder": Entry(
        "your own pictures: <domain>/<class>/<image>, and source/<class>/<image>", "yours"
    ),
}
