"""ONE MODEL COMPARED WITH ANOTHER: a peer with ours, and a new model with an old one."""
