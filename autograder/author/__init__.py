"""What an author writes: notebooks, answers whose verdict is known, checks; and what of it students get."""
