"""Answers that are alike: written ones in groups, to be marked together, and programs of two submissions, side by
side.
"""
