"""What is read afterwards: the class's page, a page for each student."""
