"""Where and whether a stage runs: command line, checks before the start, runs on this machine."""
