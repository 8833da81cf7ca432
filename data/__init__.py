"""What the notebooks read: loaders and a card for each source, in README.md."""
