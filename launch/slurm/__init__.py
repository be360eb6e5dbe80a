"""Stages as Slurm jobs: scripts from templates, chains of jobs, and what the queue says of them."""
