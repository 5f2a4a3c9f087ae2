"""Starts a real Ray cluster of a head and two more nodes, for as long as its input is open.

Run by an interpreter that has ray. It prints the address and the ids of the raylets, head first.
"""

import json
import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args=dict(NODE))
    nodes = [cluster.head_node, *(cluster.add_node(**NODE) for _ in range(2))]
    cluster.wait_for_nodes()
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    sys.stdin.read()  # until the test closes it, or dies
    cluster.shutdown()


if __name__ == "__main__":
    main()
