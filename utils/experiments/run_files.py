"""The files of runs that a submission may have: where they are, how many, and how large."""

from collections.abc import Mapping

MAX_FILE = 2**20  # bytes
MAX_FILES = 2000  # in one submission: 20 seeds of the 54 experiments that there are in one size, and as many again
Files = Mapping[str, bytes]  # "NAME-DIGEST/seed_N.json" -> content
RESULTS = "results"  # the folder, as students know it
