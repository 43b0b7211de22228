"""The factorial study: a grid of attempts, trained in blocks as jobs (see `lib.jobs`), joined to one dataset."""

from lib.study.run import STUDY

__all__ = ["STUDY"]
