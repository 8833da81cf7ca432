"""Cases of notebook 14 that students never see."""
