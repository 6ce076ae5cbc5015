"""The peers' task with PyTorch's DistributedDataParallel over gloo, under torchrun. It keeps a snapshot of each epoch,
as torchrun's own guide has it, and goes on from there when torchrun starts its world again."""

import torch
import torch.distributed
from task import MOMENTUM, RATE, Marks, Settings, torch_data, torch_network
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler


def main():
    settings = Settings.read()
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    marks, network, snapshot = Marks(settings.folder), torch_network(), settings.folder / "snapshot"
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)
    begin = 0
    if snapshot.exists():
        state = torch.load(snapshot)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epochs"]
    model = DistributedDataParallel(network)
    images, labels = torch_data(settings, "train")
    sampler = DistributedSampler(labels, seed=1)
    for epoch in range(begin, settings.epochs):
        sampler.set_epoch(epoch)
        order = torch.tensor(list(sampler))
        for chosen in order.split(settings.batch):
            optimizer.zero_grad()
            output = model(images[chosen])
            marks.add()
            torch.nn.functional.cross_entropy(output, labels[chosen]).backward()
            optimizer.step()
        if rank == 0:
            part = snapshot.with_suffix(".part")
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1}
            torch.save(state, part)
            part.rename(snapshot)
    if rank == 0:
        images, labels = torch_data(settings, "eval")
        with torch.no_grad():
            right = sum(int((network(x).argmax(1) == y).sum()) for x, y in zip(images.split(500), labels.split(500)))
        (settings.folder / "accuracy").write_text(str(right / len(labels)))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
