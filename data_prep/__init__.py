"""From raw releases to rows, and from rows to training and evaluation sets."""
