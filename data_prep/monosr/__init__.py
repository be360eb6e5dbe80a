"""MonoSR: questions with answers from geometry, made from Omni3D's boxes (paper, sections 3.1 and 3.2)."""
