"""The one compiled part: optional, so that without a compiler numpy decides instead."""

import os

from setuptools import Extension, setup

# No contraction: a product and a sum are rounded one by one, as numpy rounds them.
FLAGS = [] if os.name == "nt" else ["-O3", "-ffp-contract=off", "-fno-math-errno"]

setup(
    ext_modules=[
        Extension(
            "multipool.memory._decide",
            [f"src/multipool/memory/{name}.c" for name in ("decide", "clusters", "single")],
            depends=["src/multipool/memory/decide.h"],
            extra_compile_args=FLAGS,
            libraries=[] if os.name == "nt" else ["m"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
