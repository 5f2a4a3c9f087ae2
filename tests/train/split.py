"""Run the toy in one of several processes, each with an output folder of its own."""

import json
import os
import sys

import torch
from toy import ToyTask, config

from roberta_hub.train.loop.training_loop import train_loop

torch.set_num_threads(1)
folder = json.loads(os.environ["FOLDERS"])[int(os.environ["RANK"])]
options = {"optimizer__total_updates": 8, "loop__evaluate_every": 0}
options |= json.loads(os.environ.get("OPTIONS", "{}"))
about = config(folder, **options, loop__max_updates=int(sys.argv[1]))
# One write: the other process prints into the same pipe.
print(f"done {train_loop(ToyTask(), about).update}", flush=True)
