"""Check a profile of `params.yaml`, and print what it trains.

``python -m study.training [PROFILE]`` checks one profile; it says nothing about the others.
"""

import argparse
import signal
import sys

from study.config.file import read_params
from study.config.run import RunConfig
from study.training.profile import Profile, load_profile


def main(arguments: list[str] | None = None) -> int:
    """Check a profile of `params.yaml`, and print a line for each dataset that it trains.

    Parameters
    ----------
    arguments : list of str, optional
        Command line arguments; by default those of the process.

    Returns
    -------
    int
        Exit status: 0, or 2 if the profile is invalid.
    """
    parser = argparse.ArgumentParser(
        prog="python -m study.training",
        description="Check a profile of params.yaml, and print a line for each dataset that it "
        "trains.",
    )
    parser.add_argument("profile", nargs="?", help="its name; by default that of params.yaml")
    options = parser.parse_args(arguments)
    try:
        profile = load_profile(options.profile or read_params()["profile"])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(_describe(profile)))
    return 0


def _describe(profile: Profile) -> list[str]:
    """Return the lines that describe a profile."""
    jobs = sum(profile.count(group) for group in profile.designs)
    return [
        f"Profile {profile.name} of params.yaml is valid: {jobs:,} jobs, "
        f"{len(profile.designs)} datasets.",
        f"It reads the data sets {', '.join(profile.datasets)}.",
        "",
        f"{'dataset':16} {'jobs':>6}  networks and tasks",
        *(_describe_group(profile, group) for group in profile.designs),
    ]


def _describe_group(profile: Profile, group: str) -> str:
    """Return the line of one dataset."""
    runs = [design for design in profile.designs[group] if isinstance(design, RunConfig)]
    text = "an experiment with a section of its own"
    if runs:
        networks = {run.network_name for run in runs}
        tasks = dict.fromkeys(run.task_label for run in runs)
        text = f"{_count(len(networks), 'network')} on {_count(len(tasks), 'task')}: "
        text += "; ".join(tasks)  # names of tasks may contain commas
    return f"{group:16} {profile.count(group):6,}  {text}"


def _count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `| head` ends this process quietly
    sys.exit(main())
