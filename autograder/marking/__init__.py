"""Marking written answers question by question, in a page."""
