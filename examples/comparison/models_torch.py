"""Five small models in PyTorch, layer for layer those of models_tensorflow.py and models_mindspore.py."""

from __future__ import annotations

from collections.abc import Callable

import sizes  # type: ignore[import-not-found]  # beside this file
import torch
from sizes import ModelName, Slow
from torch import Tensor, nn
from torch.nn import functional


class ResidualNetwork(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A convolution, a residual block of two, pooling and a dense layer."""

    def __init__(self, slow: Slow | None) -> None:
        """Make the layers."""
        super().__init__()
        kernel = 7 if slow == "kernel" else 3
        self.slow = slow
        self.stem = nn.Conv2d(sizes.COLORS, sizes.CHANNELS, 3, padding=1)
        self.stem_norm = nn.BatchNorm2d(sizes.CHANNELS)
        self.first = nn.Conv2d(sizes.CHANNELS, sizes.CHANNELS, kernel, padding=kernel // 2)
        self.first_norm = nn.BatchNorm2d(sizes.CHANNELS)
        self.second = nn.Conv2d(sizes.CHANNELS, sizes.CHANNELS, 3, padding=1)
        self.second_norm = nn.BatchNorm2d(sizes.CHANNELS)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(sizes.CHANNELS, sizes.CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the logits of a batch of pictures."""
        inner = self.relu(self.stem_norm(self.stem(pictures)))
        block = self.relu(self.first_norm(self.first(inner)))
        block = self.second_norm(self.second(block))
        inner = self.pool(self.relu(inner + block))
        if self.slow == "transpose":
            inner = turned(inner)
        if self.slow == "loop":
            inner = torch.stack([torch.tanh(inner[i]) for i in range(sizes.PICTURES)])
        logits: Tensor = self.head(self.average(inner).flatten(1))
        return logits


class HandwrittenAttention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention of a sentence to itself, in matrix products and a softmax."""

    def __init__(self) -> None:
        """Make the projections."""
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(sizes.WIDTH, sizes.WIDTH) for _ in range(4))

    def forward(self, words: Tensor) -> Tensor:
        """Let every word look at every other."""
        query, key, value = (self._heads(layer(words)) for layer in (self.query, self.key, self.value))
        scores = torch.matmul(query, key.transpose(2, 3)) * (sizes.WIDTH // sizes.HEADS) ** -0.5
        attended = torch.matmul(torch.softmax(scores, dim=-1), value)
        together: Tensor = self.output(attended.transpose(1, 2).reshape(sizes.SENTENCES, sizes.WORDS, sizes.WIDTH))
        return together

    def _heads(self, words: Tensor) -> Tensor:
        return words.view(sizes.SENTENCES, sizes.WORDS, sizes.HEADS, -1).transpose(1, 2)


class LibraryAttention(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention of a sentence to itself, by the framework's own layer."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.attention = nn.MultiheadAttention(sizes.WIDTH, sizes.HEADS, batch_first=True)

    def forward(self, words: Tensor) -> Tensor:
        """Let every word look at every other."""
        attended: Tensor = self.attention(words, words, words, need_weights=False)[0]
        return attended


class Transformer(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """An embedding, one block of a transformer, and a dense layer over the mean of the words."""

    def __init__(self, attention: nn.Module) -> None:
        """Make the layers around the attention."""
        super().__init__()
        self.embedding = nn.Embedding(sizes.VOCABULARY, sizes.WIDTH)
        self.attention_norm, self.dense_norm = nn.LayerNorm(sizes.WIDTH), nn.LayerNorm(sizes.WIDTH)
        self.attention = attention
        self.attention_dropout, self.dense_dropout = nn.Dropout(sizes.DROPPED), nn.Dropout(sizes.DROPPED)
        self.inner, self.outer = nn.Linear(sizes.WIDTH, sizes.INNER), nn.Linear(sizes.INNER, sizes.WIDTH)
        self.gelu = nn.GELU()
        self.head = nn.Linear(sizes.WIDTH, sizes.CLASSES)

    def forward(self, sentences: Tensor) -> Tensor:
        """Return the logits of a batch of sentences."""
        words = self.embedding(sentences)
        words = words + self.attention_dropout(self.attention(self.attention_norm(words)))
        dense = self.outer(self.gelu(self.inner(self.dense_norm(words))))
        words = words + self.dense_dropout(dense)
        logits: Tensor = self.head(words.mean(dim=1))
        return logits


class Recurrent(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """An LSTM, and a dense layer over its last state."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.lstm = nn.LSTM(sizes.SIGNALS, sizes.STATE, batch_first=True)
        self.head = nn.Linear(sizes.STATE, sizes.CLASSES)

    def forward(self, series: Tensor) -> Tensor:
        """Return the logits of a batch of series."""
        states, _ = self.lstm(series)
        logits: Tensor = self.head(states[:, -1])
        return logits


class Perceptron(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Three dense layers."""

    def __init__(self, slow: Slow | None) -> None:
        """Make the layers."""
        super().__init__()
        width = sizes.WIDER * sizes.HIDDEN if slow == "kernel" else sizes.HIDDEN
        self.slow = slow
        self.first = nn.Linear(sizes.COLUMNS, sizes.HIDDEN)
        self.second = nn.Linear(sizes.HIDDEN, width)
        self.relu = nn.ReLU()
        self.head = nn.Linear(width, sizes.CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of a batch of rows."""
        hidden = self.relu(self.first(rows))
        if self.slow == "transpose":
            hidden = turned(hidden)
        if self.slow == "loop":
            hidden = torch.stack([torch.tanh(hidden[i]) for i in range(sizes.ROWS)])
        logits: Tensor = self.head(self.relu(self.second(hidden)))
        return logits


def turned(values: Tensor) -> Tensor:
    """Transpose the values of each sample many times, and copy them each time."""
    shape = values.shape
    for _ in range(sizes.TURNS):
        values = values.view(shape[0], sizes.TURNED, -1).transpose(1, 2).contiguous().view(shape)
    return values


def one_thread() -> None:
    """Make durations of operators comparable: none waits for another's core."""
    torch.set_num_threads(1)


def training(name: ModelName, slow: Slow | None = None) -> Callable[[], float]:
    """Return a function that trains the model for one step and returns the loss."""
    torch.manual_seed(0)
    model = _model(name, slow)
    inputs, labels = (torch.from_numpy(array) for array in sizes.made_up_batch(name))
    labels = labels.long()
    if name == "cnn":
        inputs = inputs.permute(0, 3, 1, 2).contiguous()
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def step() -> float:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _model(name: ModelName, slow: Slow | None) -> nn.Module:
    makers: dict[ModelName, Callable[[], nn.Module]] = {
        "cnn": lambda: ResidualNetwork(slow),
        "attention": lambda: Transformer(LibraryAttention()),
        "handwritten": lambda: Transformer(HandwrittenAttention()),
        "lstm": Recurrent,
        "mlp": lambda: Perceptron(slow),
    }
    return makers[name]()
