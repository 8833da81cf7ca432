"""The public checks, one module per notebook."""
