"""Cases of notebook 09 that students never see: other tasks, other sizes, edges, drawn for each hand-in."""
