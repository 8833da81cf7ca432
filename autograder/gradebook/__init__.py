"""nbgrader's course tree and gradebook, and who the students are."""
