"""What the instructor runs: build, release, collect, grade, feedback, report, export."""
