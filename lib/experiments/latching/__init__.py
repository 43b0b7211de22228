"""Sections 3.3.2 and 3.6 of the dissertation: what a network that latches one sign has learned."""

from lib.experiments.latching.dataset import SCHEMA, plan, run
from lib.experiments.latching.training import Latch, Training, fit_output, start, train

__all__ = ["SCHEMA", "Latch", "Training", "fit_output", "plan", "run", "start", "train"]
