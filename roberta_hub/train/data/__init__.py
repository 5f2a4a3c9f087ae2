"""What a run learns from: texts and labels become examples, and examples become batches."""
