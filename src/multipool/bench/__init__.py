"""Experiments as data, the runner, speed measurements, and what makes pages and pictures of them.

``experiment.Experiment`` says what to run; ``runner.run`` runs it and returns a ``Result``. Import
from the files: a page is made without torch, and a run without matplotlib.
"""
