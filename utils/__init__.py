"""What the notebooks import: checks, profiles, training, plots."""
