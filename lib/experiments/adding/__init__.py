"""Experiment 2.4 of the dissertation: LU RNN, inverse RNN, basic RNN and LSTM on the adding problem."""

from lib.experiments.adding.dataset import SCHEMA, plan, run
from lib.experiments.adding.training import Adder, Training, start, train

__all__ = ["SCHEMA", "Adder", "Training", "plan", "run", "start", "train"]
