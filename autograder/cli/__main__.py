"""`python -m autograder.cli` is `autograder`."""

from autograder.cli import main

if __name__ == "__main__":
    main()
