"""Matrix factorization of ratings that it draws: rows of users, films and words lie in tables on the servers."""

import argparse

import downpour
import numpy
import torch

USERS, FILMS, WORDS, WIDTH = 2000, 500, 60, 8
NO_WORD = -1


class Ratings(torch.nn.Module):
    """What a user thinks of a film: their rows' product, and a number of each of them. A film also has some words."""

    def __init__(self):
        super().__init__()
        rule = {"name": "adagrad", "learningRate": 0.1}
        self.users = downpour.Embedding(WIDTH, optimizer=rule)
        self.films = downpour.Embedding(WIDTH, optimizer=rule)
        self.words = downpour.EmbeddingBag(WIDTH, mode="sum", padding_idx=NO_WORD, optimizer=rule, initializer="zeros")
        self.user_offsets = downpour.Embedding(1, optimizer=rule, initializer="zeros")
        self.film_offsets = downpour.Embedding(1, optimizer=rule, initializer="zeros")
        self.mean = torch.nn.Parameter(torch.zeros(()))

    def forward(self, user, film, words):
        product = (self.users(user) * (self.films(film) + self.words(words))).sum(1)
        return product + self.user_offsets(user)[:, 0] + self.film_offsets(film)[:, 0] + self.mean


def keys(batch):
    """The rows that a batch needs: with this they are there before the model is called."""
    user, film, words, _ = batch
    return {"users": user, "user_offsets": user, "films": film, "film_offsets": film, "words": words}


def draw(count, seed):
    """Ratings by hidden tastes. An id is any number of 64 bits, so nobody has to count users."""
    rng = numpy.random.default_rng(1)
    tastes, kinds = rng.standard_normal((2, max(USERS, FILMS, WORDS), 3)) / 3**0.5
    user_offsets, film_offsets = rng.standard_normal((2, USERS)) / 2
    words_of = rng.integers(WORDS, size=(FILMS, 4))
    words_of[rng.random(words_of.shape) < 0.4] = NO_WORD
    rng = numpy.random.default_rng(seed)
    user, film = rng.integers(USERS, size=count), (FILMS * rng.random(count) ** 2).astype(numpy.int64)
    rating = (tastes[user] * kinds[film]).sum(1) + user_offsets[user] + film_offsets[film] + 3
    rating += 0.1 * rng.standard_normal(count)
    return user * 1_000_003 + 10**12, film, words_of[film], rating.astype(numpy.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hint", action="store_true", help="name the rows of a batch before the model is called")
    parser.add_argument("--examples", type=int, default=60_000)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = Ratings()
    downpour.fit(
        model,
        train=draw(options.examples, seed=2),
        eval=draw(5000, seed=3),
        loss=torch.nn.functional.mse_loss,
        optimizer=torch.optim.Adagrad(model.parameters(), lr=0.1),
        keys=keys if options.hint else None,
        epochs=6,
        batch_size=128,
    )


if __name__ == "__main__":
    main()
