"""The five kinds of experiments: how each is trained, and how its results are stored.

`study.training.plans` sets the experiment of each job. Most new experiments are groups of runs,
which only take lines in `params.yaml`. A new kind of experiment takes

- a design, a subclass of `study.config.design.Design`, and the name of its section in
  `study.config.grammar.Sections`;
- a schema in `study.results`, which `study.results.datasets` lists, and in
  `study.results.learned.networks_learned` a rule for when its networks have learned;
- a function that trains its jobs, in a module of its own here, and one in `design_datasets` that
  joins their results;
- an `Experiment` below, a function in `plans` that plans its jobs, and a row of
  `study.training.plans.DESIGNS`.
"""

from study.results.factorial import FACTORIAL as FACTORIAL_SCHEMA
from study.results.interventions import INTERVENTIONS as INTERVENTIONS_SCHEMA
from study.results.latching import LATCHING as LATCHING_SCHEMA
from study.results.linear_gaps import LINEAR_GAPS as LINEAR_GAPS_SCHEMA
from study.training.design_datasets import (
    factorial_to_dataset,
    interventions_to_dataset,
    latching_to_dataset,
    linear_gaps_to_dataset,
)
from study.training.factorial import train_attempts
from study.training.interventions import train_interventions
from study.training.job import Experiment
from study.training.latching import train_latching
from study.training.linear_gaps import train_linear_gaps
from study.training.run_dataset import runs_schema, runs_to_dataset
from study.training.runs import train_runs

RUNS = Experiment("runs", train_runs, runs_schema, runs_to_dataset)
FACTORIAL = Experiment(
    "factorial", train_attempts, lambda designs: FACTORIAL_SCHEMA, factorial_to_dataset
)
LATCHING = Experiment(
    "latching", train_latching, lambda designs: LATCHING_SCHEMA, latching_to_dataset
)
LINEAR_GAPS = Experiment(
    "linear_gaps", train_linear_gaps, lambda designs: LINEAR_GAPS_SCHEMA, linear_gaps_to_dataset
)
INTERVENTIONS = Experiment(
    "interventions",
    train_interventions,
    lambda designs: INTERVENTIONS_SCHEMA,
    interventions_to_dataset,
)
