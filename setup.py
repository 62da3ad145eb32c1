"""The one compiled part: optional, so that without a compiler numpy decides instead."""

import os
import sysconfig

from setuptools import Extension, setup

# No contraction: a product and a sum are rounded one by one, as numpy rounds them.
FLAGS = [] if os.name == "nt" else ["-O3", "-ffp-contract=off", "-fno-math-errno"]
# One binary for Python 3.11 and later; free-threaded builds have no such interface.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "multipool.memory._decide",
            [f"src/multipool/memory/{name}.c" for name in ("decide", "checks", "clusters", "merge")],
            depends=["src/multipool/memory/decide.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
            extra_compile_args=FLAGS,
            libraries=[] if os.name == "nt" else ["m"],
            py_limited_api=LIMITED,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
