"""Answers fairseq's names by ours, in a process that asks for it: `as_fairseq`, `roberta-hub run`.

offered.py       which names, by fairseq's modules; what to do instead of the others
importing.py     the names made importable; torch.hub, and processes that start later
running.py       a script or a module, run as Python runs it
loading.py       fairseq's functions that load: hub_utils, checkpoint_utils, tasks, encoders
word_alignment.py tensors.py   its alignment_utils; its small functions on tensors
pronoun_files.py its examples.roberta.wsc.wsc_utils: files of WSC and Winogrande
"""
