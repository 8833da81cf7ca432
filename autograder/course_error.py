"""What is wrong with a course, for people."""


class CourseError(Exception):
    """Something about the course is not as it must be; the message says what to do."""
