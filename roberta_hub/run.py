"""Runs a script of fairseq's, as `roberta-hub run` does: `python -m roberta_hub.run SCRIPT`."""

import sys

from roberta_hub.shell.main import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))
