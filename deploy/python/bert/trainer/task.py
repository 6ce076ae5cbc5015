"""A small BERT of `transformers`, built from a config, which learns the order of words in sentences of its own."""

import downpour
import torch
from transformers import BertConfig, BertForSequenceClassification

WORDS, LONGEST = 24, 10
PAD, BEGIN, SUBJECT, OBJECT, FIRST_WORD = range(5)


class Sentences(torch.utils.data.Dataset):
    """Sentences of 4 to LONGEST words. In half of them the object stands first. Each follows from its number."""

    def __init__(self, first, count):
        self.first, self.count = first, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        draws = torch.Generator().manual_seed(self.first + index)
        length = int(torch.randint(4, LONGEST + 1, (), generator=draws))
        words = torch.randint(FIRST_WORD, FIRST_WORD + WORDS, (length,), generator=draws)
        subject, other = torch.randperm(length, generator=draws)[:2]
        words[subject], words[other] = SUBJECT, OBJECT
        return words, int(other < subject)


def collate(items):
    """A batch as the model takes it: padded to the longest sentence."""
    width = 1 + max(len(words) for words, _ in items)
    ids = torch.full((len(items), width), PAD)
    ids[:, 0] = BEGIN
    for row, (words, _) in zip(ids, items):
        row[1 : 1 + len(words)] = words
    labels = torch.tensor([label for _, label in items])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def step(model, batch):
    answer = model(**batch)
    return answer.loss, answer.logits, batch["labels"]


def main():
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=FIRST_WORD + WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=1 + LONGEST, pad_token_id=PAD, num_labels=2,
        initializer_range=0.1,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    downpour.fit(
        model,
        train=Sentences(0, 8000),
        eval=Sentences(10**6, 1000),
        step=step,
        collate=collate,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.01),
        epochs=2,
        batch_size=32,
    )


if __name__ == "__main__":
    main()
