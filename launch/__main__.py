"""`python -m launch`, the same as the console command `launch`."""

import sys

from launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
