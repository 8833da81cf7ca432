"""How a test waits for what sends no event."""

import inspect
import time


def eventually(condition, seconds=60):
    """What `condition()` is once it is true; after so many seconds the test fails."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} seconds: {inspect.getsource(condition).strip()}"
        time.sleep(0.02)
    return value
