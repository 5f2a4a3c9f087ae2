"""Runs a lake as one JSON argument says, and prints what came of it; tests kill it."""

from __future__ import annotations

import json
import sys

import odd_verbs

from roberta_hub.errors import LakeError, RobertaHubError
from roberta_hub.scale import lake


def main() -> None:
    told = json.loads(sys.argv[1])
    kind = getattr(odd_verbs, told.pop("kind", "Verb"))
    verb = kind("classify", told.pop("model"), text=("premise", "hypothesis"), threads=1)
    said: dict[str, object] = {}
    try:
        report = lake(told.pop("source"), told.pop("target"), verb, progress=False, **told)
    except LakeError as error:
        report = error.report
    except RobertaHubError as error:
        print("REPORT", json.dumps({"error": str(error)}))
        raise SystemExit(2) from None
    said["rows"], said["left"] = report.rows, report.left
    said["done"] = [(done.unit, done.worker) for done in report.done]
    said["failed"] = [done.why[0] for done in report.failed]
    print("REPORT", json.dumps(said))


if __name__ == "__main__":
    main()
