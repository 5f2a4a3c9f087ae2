"""ONE MODEL BESIDE ANOTHER: a peer beside ours, and a new model beside an old one."""
