"""Makes the tasks that a run can learn: each turns examples into a loss and a score."""
