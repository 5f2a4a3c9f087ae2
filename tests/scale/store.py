"""Starts moto's S3 on loopback for as long as its input is open; run where moto is installed."""

import json
import logging
import sys

from moto.server import ThreadedMotoServer


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line a request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(json.dumps(server.get_host_and_port()), flush=True)
    sys.stdin.read()  # until the test closes it, or dies
    server.stop()


if __name__ == "__main__":
    main()
