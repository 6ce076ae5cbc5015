"""Steps per second of 784-256-128-10 on batches of 128 by PyTorch with CUDA graphs: forward, loss, backward, tf32."""

import time

import torch

torch.backends.cuda.matmul.allow_tf32 = True
model = torch.nn.Sequential(
    torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
).cuda()
inputs = torch.rand(128, 784, device="cuda")
labels = torch.randint(0, 10, (128,), device="cuda")


def step():
    for parameter in model.parameters():
        parameter.grad = None
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    return loss


stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(5):
        step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()

best = 0.0
for _ in range(5):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(500):
        graph.replay()
        loss.item()  # as a worker, which reports each step's loss
    best = max(best, 500 / (time.perf_counter() - begin))
print(best)
