"""The experiments, one per file: what a section of `params.yaml` asks for, how it is trained, what comes of it.

Each registers an `Experiment`. It is run as all others are::

    profile = load_profile("smoke")
    ds = profile.train("linear_gaps", cache="data/cache/linear_gaps")
"""

from lib.experiments._experiment import EXPERIMENTS, Experiment
from lib.experiments._profile import Profile, load_profile
from lib.registry import import_files

import_files(__name__, __path__)

__all__ = ["EXPERIMENTS", "Experiment", "Profile", "load_profile"]
