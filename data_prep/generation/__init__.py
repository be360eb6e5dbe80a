"""Questions for image pairs of your own, made as CVSBench's were: generated, checked, filtered, balanced.

The rules are those of the paper's four generation prompts (CVSBench 0.A.2), in our words and as code.
"""
