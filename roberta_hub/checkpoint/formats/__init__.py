"""What others write becomes a checkpoint, and a checkpoint what they read."""
