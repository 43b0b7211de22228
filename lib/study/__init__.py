"""The factorial study: a grid of attempts, trained in blocks as jobs (see `lib.jobs`), joined to one dataset."""

from lib.study.run import run_study

__all__ = ["run_study"]
