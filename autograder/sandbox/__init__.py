"""Where a student's code runs: a process that reaches nothing but the judge."""
