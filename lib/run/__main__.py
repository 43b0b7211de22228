"""Run one notebook from the command line, see `lib.run.execute`."""

import sys

from lib.run.execute import main

sys.exit(main())
