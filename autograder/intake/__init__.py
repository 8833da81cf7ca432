"""How submissions come in: unpacked, read, and put back into the released notebook."""
