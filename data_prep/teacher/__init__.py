"""Teacher reasoning for the SFT half: read from a file, or written by a model behind an endpoint."""
