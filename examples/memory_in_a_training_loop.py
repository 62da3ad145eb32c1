"""The multi-cluster memory in a training loop of your own: predict, store, draw, learn."""

import torch
from torch import nn

from multipool.memory import MultiClusterMemory


def stream(batches, size=64):
    """Yield images whose colours drift, as a camera would see them over a day."""
    for step in range(batches):
        light = 0.5 + 0.4 * torch.sin(torch.tensor(step / 10))
        yield (torch.rand(size, 3, 16, 16) * 0.5 + torch.rand(size, 3, 1, 1) * 0.5) * light


def main():
    """Adapt the normalisation layers of a small network by entropy minimisation."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 100),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-3)
    memory = MultiClusterMemory(num_classes=100)
    for images in stream(40):
        with torch.inference_mode():
            probabilities = model.eval()(images).softmax(dim=1)
            entropy = -(probabilities * probabilities.log()).sum(dim=1)
        memory.add(images, uncertainty=entropy, labels=probabilities.argmax(dim=1))
        logits = model.train()(memory.retrieve(64).images)
        loss = torch.distributions.Categorical(logits=logits).entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}, clusters of {memory.clusters.sizes.tolist()}, {memory.events}")


if __name__ == "__main__":
    main()
