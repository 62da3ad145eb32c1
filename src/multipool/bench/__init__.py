"""Experiments as data, and what is made of them.

``run`` does one experiment and writes it down; ``report`` sets results side by side; ``sweep`` does
many, each once; ``paper`` makes the paper's tables and figures again and ``compare`` asks which
method suits which stream; ``recheck`` makes rows of all of them again; ``train`` makes source
models and ``speed`` measures. The order, which the import contract checks: ``run`` knows none of
the others, ``report`` and ``sweep`` build on it in that order, ``paper`` and ``compare`` on all
three, ``recheck`` on everything.
"""
