"""How a check asks an answer and reaches its verdict, at home and in grading alike."""
