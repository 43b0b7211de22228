"""Check `params.yaml` and print what a profile asks for: ``python -m lib.training [PROFILE] [--hours]``.

With ``--hours`` nothing is trained either, but a short pass of every network is timed: what its trainings would take on this
machine, one after another.
"""

import argparse
import sys
from pathlib import Path

from lib.run.params import read_params
from lib.training.hours import hours
from lib.training.profile import ROWS, load_profile


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each dataset, with its number of jobs, or for each task of a group; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lib.training", description=main.__doc__)
    parser.add_argument(
        "profile", nargs="?", help="name of a profile; that of params.yaml by default"
    )
    parser.add_argument("--hours", action="store_true", help="time a pass of each network")
    parser.add_argument(
        "--prepared", type=Path, default="data/prepared", help="folder of the prepared data sets"
    )
    options = parser.parse_args(arguments)
    try:
        profile = load_profile(options.profile or read_params()["profile"])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    status = 0
    print(f"profile {profile.name}, data sets {', '.join(profile.datasets)}")
    for name in profile.designs:
        jobs = profile.trainings(name)
        print(f"{name:16} {len(jobs):6} jobs", flush=True)
        if not options.hours or profile.experiment(name) is not ROWS:
            continue
        try:
            for row in hours(jobs, options.prepared).itertuples():
                said = f"{row.sequence_steps:14.3g} sequence steps {row.hours:10.2f} h"
                print(f"  {row.task:28} {row.jobs:4} jobs {said}", flush=True)
        except ValueError as error:  # a data set that is missing hides no other group
            print(f"  {error}", file=sys.stderr)
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main())
