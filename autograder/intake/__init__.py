"""How hand-ins come in: unpacked, read, and put back into the released notebook."""
