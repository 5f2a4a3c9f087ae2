"""Runs the command roberta-hub, as `python -m roberta_hub`."""

import sys

from roberta_hub.shell.main import main

if __name__ == "__main__":
    sys.exit(main())
