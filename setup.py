"""The compiled parts: optional, so that without a compiler numpy decides instead."""

import os
import sysconfig

from setuptools import Extension, setup

# No contraction: a product and a sum are rounded one by one, as numpy rounds them.
FLAGS = [] if os.name == "nt" else ["-O3", "-ffp-contract=off", "-fno-math-errno"]
# One binary for Python 3.11 and later; free-threaded builds have no such interface.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
# A wheel without compiled parts, for machines that have none of their own.
PURE = os.environ.get("MULTIPOOL_PURE") == "1"


def extension(name: str, sources: list[str], headers: list[str]) -> Extension:
    """Return a part of the package that is left out where it cannot be compiled."""
    folder = f"src/{name.rpartition('.')[0].replace('.', '/')}"
    return Extension(
        name,
        [f"{folder}/{source}.c" for source in sources],
        depends=[f"{folder}/{header}.h" for header in headers],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
        extra_compile_args=FLAGS,
        libraries=[] if os.name == "nt" else ["m"],
        py_limited_api=LIMITED,
        optional=True,
    )


setup(
    ext_modules=[]
    if PURE
    else [
        extension(
            "multipool.memory._decide", ["decide", "checks", "clusters", "merge"], ["decide"]
        ),
        extension("multipool.memory._pixels", ["pixels"], []),
        extension("multipool.decode._chains", ["chains", "order"], ["chains"]),
        extension(
            "multipool.methods.multipool._gaussians", ["gaussians", "arguments"], ["gaussians"]
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED and not PURE else {},
)
