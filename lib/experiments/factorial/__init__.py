"""The factorial study: a grid of attempts, trained in blocks as jobs (see `lib.training.jobs`), joined to one dataset."""

from lib.experiments.factorial.run import STUDY

__all__ = ["STUDY"]
