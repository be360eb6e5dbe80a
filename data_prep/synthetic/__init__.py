"""A release in CVSBench's layout, drawn from seeded scenes: for a laptop, for tests, and for nothing else.

Answers are true by construction, because pictures, questions and reasoning come from one scene. The
reader, the prompts and the trainers cannot tell it from the real release.
"""

from data_prep.synthetic.release import write_release

__all__ = ["write_release"]
