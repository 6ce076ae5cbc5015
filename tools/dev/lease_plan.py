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
class Stretch:
    """Epochs in a row that have the same examples, the first ones of the data."""

    epoch: int
    lease: int  # with which the first of them begins
    examples: int
    batches: int
    leases: int  # of each epoch


@dataclasses.dataclass
class Plan:
    examples: int
    batch_size: int
    lease_batches: int
    epochs: int
    slices: int
    push_every: int = 1
    sync_group: int = 0  # leases whose gradients are one update, within their epoch; 0: each step is one
    earlier: tuple = ()  # (epochs, examples), rising: the first epochs had fewer examples when the job was begun

    def __post_init__(self):
        if min(self.examples, self.batch_size, self.lease_batches, self.epochs, self.slices, self.push_every) < 1:
            raise Unreadable("the plan has a zero in it")
        self.stretches = []
        epoch = self.leases = 0
        for end, examples in [*self.earlier, (self.epochs, self.examples)]:
            end = min(end, self.epochs)
            if end <= epoch:
                continue
            batches = -(-examples // self.batch_size)
            of_epoch = -(-batches // self.lease_batches)
            self.stretches.append(Stretch(epoch, self.leases, examples, batches, of_epoch))
            self.leases += (end - epoch) * of_epoch
            epoch = end

    def stretch_of(self, lease):
        return [stretch for stretch in self.stretches if stretch.lease <= lease][-1]

    def epoch_of(self, lease):
        stretch = self.stretch_of(lease)
        return stretch.epoch + (lease - stretch.lease) // stretch.leases

    def leases_of(self, epoch):
        stretch = [stretch for stretch in self.stretches if stretch.epoch <= epoch][-1]
        begin = stretch.lease + (epoch - stretch.epoch) * stretch.leases
        return range(begin, begin + stretch.leases)

    def examples_of_epoch(self, epoch):
        return [stretch for stretch in self.stretches if stretch.epoch <= epoch][-1].examples

    def first_batch(self, lease):
        stretch = self.stretch_of(lease)
        return (lease - stretch.lease) % stretch.leases * self.lease_batches

    def steps_of(self, lease):
        batches = min(self.lease_batches, self.stretch_of(lease).batches - self.first_batch(lease))
        return -(-batches // self.push_every)

    def group_of(self, lease):
        """The leases of the same group, with sync."""
        epoch = self.leases_of(self.epoch_of(lease))
        begin = epoch.start + (lease - epoch.start) // self.sync_group * self.sync_group
        return range(begin, min(begin + self.sync_group, epoch.stop))

    def examples_of(self, lease, steps):
        batches = min(steps * self.push_every, self.lease_batches)
        return min(
            batches * self.batch_size, self.stretch_of(lease).examples - self.first_batch(lease) * self.batch_size)

    @staticmethod
    def of_manifest(manifest, journal=None):
        """`journal`: the chief's, which knows with how many epochs the job ends if it stops early."""
        early = (journal or {}).get("earlyStop", {}).get("epochs", 0)
        training = json.loads(manifest["job"])["training"]
        return Plan(
            manifest["trainExamples"], training["batchSize"], training["leaseBatches"], early or training["epochs"],
            len(manifest["records"]), training.get("localSteps", 0) or training.get("pushEvery", 1),
            training["groupSize"] if training["consistency"] == "sync" else 0,
            [(earlier["epochs"], earlier["examples"]) for earlier in training.get("earlier", [])],
        )
