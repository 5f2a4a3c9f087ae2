"""What a run learns: each task turns examples into a loss and a score."""
