"""Asking an OpenAI-compatible endpoint many things at once: teachers and evaluation share it."""
