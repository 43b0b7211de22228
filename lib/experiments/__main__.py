"""Check `params.yaml` and print what a profile asks for: ``python -m lib.experiments [PROFILE]``."""

import sys

from lib.experiments import load_profile
from lib.run.params import ParameterError, read_params


def main(arguments: list[str]) -> int:
    """Print a line for each dataset, with its number of jobs; return the exit status."""
    try:
        profile = load_profile(arguments[0] if arguments else read_params()["profile"])
    except ParameterError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"profile {profile.name}, data sets {', '.join(profile.datasets)}")
    for name in profile.designs:
        print(f"{name:16} {len(profile.jobs_of(name)):6} jobs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
