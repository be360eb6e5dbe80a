"""Pictures with 3D boxes in Omni3D's form and exact geometry, made here: for a laptop and for tests."""
