"""Pictures with boxes in Omni3D's form, made here with exact geometry: for a laptop, for tests and for measuring."""
