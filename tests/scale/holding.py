"""Takes every CPU of the Ray cluster at $RAY_ADDRESS for as long as its input is open."""

import json
import sys

import ray


@ray.remote(num_cpus=1)
class Holder:
    def here(self) -> bool:
        return True


def main() -> None:
    ray.init(log_to_driver=False)
    holders = [Holder.remote() for _ in range(int(ray.cluster_resources()["CPU"]))]
    ray.get([holder.here.remote() for holder in holders])
    print(json.dumps(ray.available_resources().get("CPU", 0)), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
