"""What each stage does: prepare, train, evaluate, report. Where a stage runs is `launch`'s matter."""

VERL = "0.9.1"  # the one version whose trainer and internals the GRPO stage is written for
