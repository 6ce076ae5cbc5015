"""What batches are made of: datasets, lists and arrays, with and without a collate function."""

import unittest

from package import is_there  # first: it says where the others are

import downpour

TORCH = is_there("torch")
if is_there("numpy"):
    import numpy

    from downpour.examples import Examples
if TORCH:
    import torch

SEED = 2**63 + 5


@unittest.skipUnless(is_there("numpy"), "python3-numpy is not there")
class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.x = numpy.arange(12, dtype=numpy.float32).reshape(6, 2)
        self.y = numpy.arange(6)

    def same(self, batch, wanted):
        """The forms and the numbers."""
        self.assertEqual(type(batch) is dict, type(wanted) is dict)
        names = wanted if isinstance(wanted, dict) else range(len(wanted))
        self.assertEqual(len(batch), len(wanted))
        for name in names:
            numpy.testing.assert_array_equal(numpy.asarray(batch[name]), wanted[name])

    def test_arrays_and_items_make_the_same_batch(self):
        items = list(zip(self.x, self.y))
        numbers = [4, 0, 4]
        for data in ((self.x, self.y), items):
            batch = Examples(data, None, False, "train").batch(numbers, SEED)
            self.same(batch, (self.x[numbers], self.y[numbers]))
            self.assertIsInstance(batch[0], numpy.ndarray)
        for data in ({"x": self.x, "y": self.y}, [{"x": x, "y": y} for x, y in items]):
            batch = Examples(data, None, False, "train").batch(numbers, SEED)
            self.same(batch, {"x": self.x[numbers], "y": self.y[numbers]})

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_tensors(self):
        numbers = [5, 1]
        tensors = torch.from_numpy(self.x), torch.from_numpy(self.y)
        for data in ((self.x, self.y), tensors, torch.utils.data.TensorDataset(*tensors), list(zip(*tensors))):
            examples = Examples(data, None, True, "train")
            self.assertEqual(examples.count, 6)
            batch = examples.batch(numbers, SEED)
            self.assertIsInstance(batch[0], torch.Tensor)
            self.assertEqual(batch[0].dtype, torch.float32)
            self.same(batch, (self.x[numbers], self.y[numbers]))

    def test_a_collate_function_is_given_items(self):
        given = []
        collate = lambda items: given.extend(items) or len(items)
        for data in ((self.x, self.y), list(zip(self.x, self.y))):
            self.assertEqual(Examples(data, collate, False, "train").batch([2, 3, 3], SEED), 3)
        for x, y in given:
            numpy.testing.assert_array_equal(x, self.x[y])
        self.assertEqual([int(y) for _, y in given], [2, 3, 3] * 2)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            Examples([1], lambda items: 1 / 0, False, "train").batch([0], SEED)

    def test_every_bit_of_a_seed_counts(self):
        import random

        class Draws:
            def __len__(self):
                return 3

            def __getitem__(self, index):
                drawn = [random.random(), float(numpy.random.rand())]
                return numpy.array(drawn + ([float(torch.rand((), dtype=torch.float64))] if TORCH else []))

        examples = Examples(Draws(), None, False, "train")
        first = examples.batch([0, 1], SEED)
        numpy.testing.assert_array_equal(examples.batch([2, 0], SEED), first)
        for bit in (0, 31, 32, 62):
            same = (examples.batch([0, 1], SEED ^ (1 << bit)) == first).any(axis=0)
            self.assertFalse(same[:2].any())
            self.assertFalse(same[2:].any() and bit < 32)  # torch's own generator of a CPU takes 32 bits

    def test_batches_that_cannot_be_stacked(self):
        for items in ([self.x[0], self.x[:2]], [{"a": 1}, {"b": 1}]):
            with self.assertRaisesRegex(downpour.TrainingError, "2 examples cannot be stacked to a batch .*collate="):
                Examples(items, None, False, "train").batch([0, 1], SEED)

    def test_variables_of_one_name(self):
        from downpour.variables import Variable, check

        with self.assertRaisesRegex(downpour.TrainingError, "two variables have the name a: rename one"):
            check([Variable("a", (1,)), Variable("b", (1,)), Variable("a", (2,))])


if __name__ == "__main__":
    unittest.main()
