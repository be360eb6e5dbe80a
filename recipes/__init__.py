"""What each stage does: prepare, train, evaluate, report. Where a stage runs is `launch`'s matter."""
