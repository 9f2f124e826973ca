"""Five small models in MindSpore, layer for layer those of models_torch.py and models_tensorflow.py."""

from __future__ import annotations

from collections.abc import Callable

import mindspore as ms
import sizes  # type: ignore[import-not-found]  # beside this file
from mindspore import Tensor, nn, ops
from sizes import ModelName, Slow


class ResidualNetwork(nn.Cell):  # type: ignore[misc]  # mindspore is not typed here
    """A convolution, a residual block of two, pooling and a dense layer."""

    def __init__(self, slow: Slow | None) -> None:
        """Make the layers."""
        super().__init__()
        self.slow = slow
        self.stem = nn.Conv2d(sizes.COLORS, sizes.CHANNELS, 3, has_bias=True)
        self.stem_norm = nn.BatchNorm2d(sizes.CHANNELS)
        self.first = nn.Conv2d(sizes.CHANNELS, sizes.CHANNELS, 7 if slow == "kernel" else 3, has_bias=True)
        self.first_norm = nn.BatchNorm2d(sizes.CHANNELS)
        self.second = nn.Conv2d(sizes.CHANNELS, sizes.CHANNELS, 3, has_bias=True)
        self.second_norm = nn.BatchNorm2d(sizes.CHANNELS)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2, stride=2)
        self.head = nn.Dense(sizes.CHANNELS, sizes.CLASSES)

    def construct(self, pictures: Tensor) -> Tensor:
        """Return the logits of a batch of pictures."""
        inner = self.relu(self.stem_norm(self.stem(pictures)))
        block = self.relu(self.first_norm(self.first(inner)))
        block = self.second_norm(self.second(block))
        inner = self.pool(self.relu(inner + block))
        if self.slow == "transpose":
            inner = turned(inner)
        if self.slow == "loop":
            inner = ops.stack([ops.tanh(inner[i]) for i in range(sizes.PICTURES)])
        return self.head(inner.mean((2, 3)))


class HandwrittenAttention(nn.Cell):  # type: ignore[misc]  # mindspore is not typed here
    """Attention of a sentence to itself, in matrix products and a softmax."""

    def __init__(self) -> None:
        """Make the projections."""
        super().__init__()
        self.query = nn.Dense(sizes.WIDTH, sizes.WIDTH)
        self.key = nn.Dense(sizes.WIDTH, sizes.WIDTH)
        self.value = nn.Dense(sizes.WIDTH, sizes.WIDTH)
        self.output = nn.Dense(sizes.WIDTH, sizes.WIDTH)
        self.scale = (sizes.WIDTH // sizes.HEADS) ** -0.5

    def construct(self, words: Tensor) -> Tensor:
        """Let every word look at every other."""
        query, key, value = self._heads(self.query(words)), self._heads(self.key(words)), self._heads(self.value(words))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * self.scale
        attended = ops.matmul(ops.softmax(scores, axis=-1), value)
        together = ops.transpose(attended, (0, 2, 1, 3)).reshape((sizes.SENTENCES, sizes.WORDS, sizes.WIDTH))
        return self.output(together)

    def _heads(self, words: Tensor) -> Tensor:
        heads = words.reshape((sizes.SENTENCES, sizes.WORDS, sizes.HEADS, sizes.WIDTH // sizes.HEADS))
        return ops.transpose(heads, (0, 2, 1, 3))


class LibraryAttention(nn.Cell):  # type: ignore[misc]  # mindspore is not typed here
    """Attention of a sentence to itself, by the framework's own layer."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.attention = nn.MultiheadAttention(sizes.WIDTH, sizes.HEADS, batch_first=True)

    def construct(self, words: Tensor) -> Tensor:
        """Let every word look at every other."""
        return self.attention(words, words, words, need_weights=False)[0]


class Transformer(nn.Cell):  # type: ignore[misc]  # mindspore is not typed here
    """An embedding, one block of a transformer, and a dense layer over the mean of the words."""

    def __init__(self, attention: nn.Cell) -> None:
        """Make the layers around the attention."""
        super().__init__()
        self.embedding = nn.Embedding(sizes.VOCABULARY, sizes.WIDTH)
        self.attention_norm, self.dense_norm = nn.LayerNorm((sizes.WIDTH,)), nn.LayerNorm((sizes.WIDTH,))
        self.attention = attention
        self.attention_dropout, self.dense_dropout = nn.Dropout(p=sizes.DROPPED), nn.Dropout(p=sizes.DROPPED)
        self.inner, self.outer = nn.Dense(sizes.WIDTH, sizes.INNER), nn.Dense(sizes.INNER, sizes.WIDTH)
        self.gelu = nn.GELU(approximate=False)
        self.head = nn.Dense(sizes.WIDTH, sizes.CLASSES)

    def construct(self, sentences: Tensor) -> Tensor:
        """Return the logits of a batch of sentences."""
        words = self.embedding(sentences)
        words = words + self.attention_dropout(self.attention(self.attention_norm(words)))
        dense = self.outer(self.gelu(self.inner(self.dense_norm(words))))
        words = words + self.dense_dropout(dense)
        return self.head(words.mean(1))


class Recurrent(nn.Cell):  # type: ignore[misc]  # mindspore is not typed here
    """An LSTM, and a dense layer over its last state."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.lstm = nn.LSTM(sizes.SIGNALS, sizes.STATE, batch_first=True)
        self.head = nn.Dense(sizes.STATE, sizes.CLASSES)

    def construct(self, series: Tensor) -> Tensor:
        """Return the logits of a batch of series."""
        states, _ = self.lstm(series)
        return self.head(states[:, -1])


class Perceptron(nn.Cell):  # type: ignore[misc]  # mindspore is not typed here
    """Three dense layers."""

    def __init__(self, slow: Slow | None) -> None:
        """Make the layers."""
        super().__init__()
        width = sizes.WIDER * sizes.HIDDEN if slow == "kernel" else sizes.HIDDEN
        self.slow = slow
        self.first = nn.Dense(sizes.COLUMNS, sizes.HIDDEN)
        self.second = nn.Dense(sizes.HIDDEN, width)
        self.relu = nn.ReLU()
        self.head = nn.Dense(width, sizes.CLASSES)

    def construct(self, rows: Tensor) -> Tensor:
        """Return the logits of a batch of rows."""
        hidden = self.relu(self.first(rows))
        if self.slow == "transpose":
            hidden = turned(hidden)
        if self.slow == "loop":
            hidden = ops.stack([ops.tanh(hidden[i]) for i in range(sizes.ROWS)])
        return self.head(self.relu(self.second(hidden)))


def turned(values: Tensor) -> Tensor:
    """Transpose the values of each sample many times, and copy them each time."""
    shape = values.shape
    for _ in range(sizes.TURNS):
        parts = values.reshape((shape[0], sizes.TURNED, -1))
        values = ops.transpose(parts, (0, 2, 1)).reshape(shape)
    return values


def one_thread() -> None:
    """Make durations of operators comparable: none waits for another's core."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.device_context.cpu.op_tuning.threads_num(1)


def training(name: ModelName, slow: Slow | None = None) -> Callable[[], float]:
    """Return a function that trains the model for one step and returns the loss."""
    ms.set_seed(0)
    model = _model(name, slow)
    inputs, labels = sizes.made_up_batch(name)
    if name == "cnn":
        inputs = inputs.transpose(0, 3, 1, 2).copy()
        optimizer: nn.Cell = nn.Momentum(model.trainable_params(), learning_rate=0.01, momentum=0.9)
    else:
        optimizer = nn.Adam(model.trainable_params(), learning_rate=0.001)
    train = nn.TrainOneStepCell(nn.WithLossCell(model, nn.CrossEntropyLoss()), optimizer).set_train()
    batch = Tensor(inputs), Tensor(labels)

    def step() -> float:
        return float(train(*batch).asnumpy())

    return step


def _model(name: ModelName, slow: Slow | None) -> nn.Cell:
    makers: dict[ModelName, Callable[[], nn.Cell]] = {
        "cnn": lambda: ResidualNetwork(slow),
        "attention": lambda: Transformer(LibraryAttention()),
        "handwritten": lambda: Transformer(HandwrittenAttention()),
        "lstm": Recurrent,
        "mlp": lambda: Perceptron(slow),
    }
    return makers[name]()
