"""`python -m roberta_hub`: the same as the command roberta-hub."""

import sys

from roberta_hub.shell.main import main

if __name__ == "__main__":
    sys.exit(main())
