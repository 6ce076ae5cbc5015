"""How the batches of a job are cut into leases and steps (schema/PROTOCOL.md), for the programs that check its outcome.

Shares no code with the programs that are checked.
"""

import dataclasses
import json


class Unreadable(Exception):
    pass


def read_manifest(path):
    """What a checkpoint's manifest says; its second line is the first one's checksum."""
    return json.loads(path.read_text().splitlines()[0])


def read_journal(job_dir):
    """The newest record of the job's chief; empty where there is none. Each copy ends with its checksum."""
    records = []
    for path in (job_dir / "journal.a", job_dir / "journal.b"):
        try:
            records.append(json.loads(path.read_text().rpartition(" crc32c ")[0]))
        except (FileNotFoundError, ValueError):
            continue
    return max(records, key=lambda record: record["number"], default={})


@dataclasses.dataclass
class Plan:
    examples: int
    batch_size: int
    lease_batches: int
    epochs: int
    slices: int
    push_every: int = 1
    sync_group: int = 0  # leases whose gradients are one update, within their epoch; 0: each step is one

    def __post_init__(self):
        if min(self.examples, self.batch_size, self.lease_batches, self.epochs, self.slices, self.push_every) < 1:
            raise Unreadable("the plan has a zero in it")
        self.batches = -(-self.examples // self.batch_size)
        self.leases_per_epoch = -(-self.batches // self.lease_batches)
        self.leases = self.leases_per_epoch * self.epochs

    def epoch_of(self, lease):
        return lease // self.leases_per_epoch

    def first_batch(self, lease):
        return lease % self.leases_per_epoch * self.lease_batches

    def steps_of(self, lease):
        return -(-min(self.lease_batches, self.batches - self.first_batch(lease)) // self.push_every)

    def group_of(self, lease):
        """The leases of the same group, with sync."""
        first = self.epoch_of(lease) * self.leases_per_epoch
        begin = first + (lease - first) // self.sync_group * self.sync_group
        return range(begin, min(begin + self.sync_group, first + self.leases_per_epoch))

    def examples_of(self, lease, steps):
        batches = min(steps * self.push_every, self.lease_batches)
        return min(batches * self.batch_size, self.examples - self.first_batch(lease) * self.batch_size)

    @staticmethod
    def of_manifest(manifest, journal=None):
        """`journal`: the chief's, which knows with how many epochs the job ends if it stops early."""
        early = (journal or {}).get("earlyStop", {}).get("epochs", 0)
        training = json.loads(manifest["job"])["training"]
        return Plan(
            manifest["trainExamples"], training["batchSize"], training["leaseBatches"], early or training["epochs"],
            len(manifest["records"]), training.get("localSteps", 0) or training.get("pushEvery", 1),
            training["groupSize"] if training["consistency"] == "sync" else 0,
        )
