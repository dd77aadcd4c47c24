"""Translation: source and target in one sequence."""
