"""Experiments over seeds: their runs, the tables of them, and what each one trains."""
