"""One table a family: how Hugging Face names its parameters and settings."""
