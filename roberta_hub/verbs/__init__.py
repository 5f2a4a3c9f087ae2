"""Holds our own verbs on texts; `RobertaHubInterface` inherits them and adds fairseq's methods."""
