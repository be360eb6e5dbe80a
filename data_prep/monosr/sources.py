"""Omni3D's sources, their domains and splits: names alone, which the command line may ask for at no cost."""

SOURCES = {
    "SUNRGBD": "indoor",
    "Hypersim": "indoor",
    "ARKitScenes": "indoor",
    "nuScenes": "outdoor",
    "KITTI": "outdoor",
    "Objectron": "object_centric",
}
"""Source -> domain, as the paper counts them."""
DOMAINS = ("indoor", "outdoor", "object_centric")
SPLITS = ("train", "val", "test")
FOLDER = "Omni3D"
"""Of the annotation files, below the data root."""
