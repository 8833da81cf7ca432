"""Grades an existing course of nbgrader, its tests in the cells, in this project's sandbox."""
