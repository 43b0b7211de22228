"""Check `params.yaml` and print what a profile runs: ``python -m study.training [PROFILE]``."""

import argparse
import sys

from study.config.file import read_params
from study.training.profile import load_profile


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each dataset, with its number of jobs; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m study.training", description=main.__doc__)
    parser.add_argument("profile", nargs="?", help="its name; by default that of params.yaml")
    options = parser.parse_args(arguments)
    try:
        profile = load_profile(options.profile or read_params()["profile"])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"profile {profile.name}, data sets {', '.join(profile.datasets)}")
    for group in profile.designs:
        print(f"{group:16} {profile.count(group):6} jobs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
