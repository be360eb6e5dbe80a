"""The questions of one scene, a module a task. Answers come from the boxes alone (paper, section 3.1)."""
