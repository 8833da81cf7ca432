"""Draws the block diagrams of the notebooks, which are data in `utils/block_diagrams.py`, into `data/diagrams`.

`python docs/draw_diagrams.py` after a change; then `autograder build` puts them into the notebooks.
"""

from utils import block_diagrams
from utils.diagrams import faults, png


def draw() -> None:
    """Draw the file of each diagram.

    Raises:
        ValueError: a layout has faults.
    """
    for name, diagram in block_diagrams.PICTURES.items():
        if found := [*faults(diagram)]:
            raise ValueError(f"{name}: {'; '.join(found)}")
        (block_diagrams.FOLDER / f"{name}.png").write_bytes(png(diagram))


if __name__ == "__main__":
    draw()
