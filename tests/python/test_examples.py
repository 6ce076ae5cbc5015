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
        if isinstance(wanted, numpy.ndarray):
            return numpy.testing.assert_array_equal(numpy.asarray(batch), wanted)
        self.assertEqual(type(batch) is dict, type(wanted) is dict)
        names = wanted if isinstance(wanted, dict) else range(len(wanted))
        self.assertEqual(len(batch), len(wanted))
        for name in names:
            self.same(batch[name], wanted[name])

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

    def test_beside_arrays_a_list_of_numbers_is_one(self):
        numbers = [4, 0, 4]
        for labels, kind in ((list(range(6)), "int64"), ([0.5 * n for n in range(6)], "float32"), ([True] * 6, "bool")):
            for data in ((self.x, labels), {"x": self.x, "y": labels}, (self.x, tuple(labels))):
                examples = Examples(data, None, False, "train")
                self.assertEqual(examples.count, 6)
                batch = examples.batch(numbers, SEED)
                found = batch["y"] if isinstance(batch, dict) else batch[1]
                self.assertEqual(found.dtype, kind)
                self.same(found, numpy.asarray(labels)[numbers])

    def test_rows_are_found_by_position_whatever_their_labels_are(self):
        if not is_there("pandas"):
            self.skipTest("python3-pandas is not there")
        import pandas

        numbers, labels = [4, 0, 4], [3, 1, 5, 0, 2, 4]
        y = pandas.Series(self.y, index=labels)
        x = pandas.DataFrame(self.x, index=labels, columns=["b", "a"])
        wanted = (self.x[numbers], self.y[numbers])
        for collate in (None, lambda items: tuple(numpy.stack([item[i] for item in items]) for i in (0, 1))):
            self.same(Examples((x, y), collate, False, "train").batch(numbers, SEED), wanted)
        self.same(Examples(x, None, False, "train").batch(numbers, SEED), self.x[numbers])
        names = pandas.DataFrame({"age": [1, 2], "name": ["a", "b"]})
        mixed = pandas.DataFrame({"size": [1.5, 2.0], "is_red": [True, False]})
        batch = Examples((mixed, [0, 1]), None, False, "train").batch([1], SEED)
        self.same(batch[0], numpy.array([[2.0, 0.0]]))
        nullable = pandas.Series([3, 4], dtype="Int64")
        self.same(Examples((nullable, [0, 1]), None, False, "train").batch([1], SEED)[0], numpy.array([4]))
        with self.assertRaisesRegex(downpour.TrainingError, "train has a Series with missing values"):
            Examples((pandas.Series([3, None], dtype="Int64"), [0, 1]), None, False, "train")
        dates = pandas.Series(pandas.to_datetime(["2026-01-01", "2026-01-02"]))
        kinds = pandas.Series(["a", "b"], dtype="category")
        for data in (names, dates, kinds):
            with self.assertRaisesRegex(downpour.TrainingError, "train has a .* of strings.*encode them as numbers"):
                Examples((data, [0, 1]), None, False, "train")

    def test_the_byte_order_of_files_becomes_the_machines(self):
        numbers = [4, 0, 4]
        data = self.x.astype(">f4"), self.y.astype(">i8")
        for tensors in {False, TORCH}:
            for collate in (None, lambda items: tuple(numpy.stack([item[i] for item in items]) for i in (0, 1))):
                batch = Examples(data, collate, tensors, "train").batch(numbers, SEED)
                self.same(batch, (self.x[numbers], self.y[numbers]))
                self.assertTrue(tensors or all(array.dtype.isnative for array in batch))

    def test_the_byte_order_of_items_becomes_the_machines(self):
        items = [(row.astype(">f4"), int(label)) for row, label in zip(self.x, self.y)]
        for tensors in {False, TORCH}:
            batch = Examples(items, None, tensors, "train").batch([4, 0], SEED)
            self.same(batch, (self.x[[4, 0]], self.y[[4, 0]]))
            self.assertTrue(tensors or batch[0].dtype.isnative)

    def test_a_mask_is_refused(self):
        masked = numpy.ma.masked_array(self.x, mask=self.x > 5)
        with self.assertRaisesRegex(downpour.TrainingError, "train has an array with a mask.*filled"):
            Examples((masked, self.y), None, False, "train")

    def test_a_sparse_matrix_is_one_of_rows(self):
        if not is_there("scipy"):
            self.skipTest("python3-scipy is not there")
        import scipy.sparse

        numbers = [4, 0, 4]
        for form in (scipy.sparse.csr_matrix, scipy.sparse.coo_matrix, scipy.sparse.csc_matrix):
            batch = Examples((form(self.x), self.y), None, False, "train").batch(numbers, SEED)
            self.same(batch, (self.x[numbers], self.y[numbers]))

    def test_rows_of_a_file_of_hdf5_may_come_in_any_order(self):
        if not is_there("h5py"):
            self.skipTest("python3-h5py is not there")
        import h5py

        numbers = [4, 0, 4]
        with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
            x = file.create_dataset("x", data=self.x)
            batch = Examples((x, self.y), None, False, "train").batch(numbers, SEED)
        self.same(batch, (self.x[numbers], self.y[numbers]))

    def test_what_finds_its_items_by_name_is_no_dataset(self):
        import collections

        with self.assertRaisesRegex(downpour.TrainingError, "train is an OrderedDict, whose examples have no numbers"):
            Examples(collections.OrderedDict(a=1), None, False, "train")

    def test_arrays_within_dicts_and_lists_make_batches_of_the_same_form(self):
        numbers, z = [4, 0, 4], numpy.arange(24).reshape(6, 2, 2)
        data = {"x": self.x, "parts": [z, (self.y,)]}
        for train in ((data, self.y), (self.x, data), data):
            examples = Examples(train, None, False, "train")
            self.assertEqual(examples.count, 6)
            batch = examples.batch(numbers, SEED)
            found = batch if train is data else batch[train[1] is data]
            self.same(found["x"], self.x[numbers])
            self.assertIs(type(found["parts"]), list)
            self.same(found["parts"][0], z[numbers])
            self.same(found["parts"][1], (self.y[numbers],))
            items = Examples(train, lambda items: items, False, "train").batch(numbers, SEED)
            part = items[1] if train is data else items[1][train[1] is data]
            self.same(part["parts"][0], z[0])
        with self.assertRaisesRegex(downpour.TrainingError, r"the arrays of the data have \[5, 6\] rows"):
            Examples(({"x": self.x}, self.y[:5]), None, False, "train")

    def test_a_tuple_of_items_that_look_alike_is_a_dataset(self):
        items = tuple({"x": x, "y": x[:1]} for x in self.x)
        self.same(Examples(items, None, False, "train").batch([3], SEED), {"x": self.x[3:4], "y": self.x[3:4, :1]})
        with self.assertRaisesRegex(downpour.TrainingError, "train is a dict, whose examples have no numbers"):
            Examples(dict(enumerate(items)), None, False, "train")
        rows = Examples(({"x": self.x}, {"x": self.y}), None, False, "train", are_rows=True).batch([3, 3], SEED)
        self.same(rows[1], {"x": self.y[[3, 3]]})

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
        says = "2 examples cannot be stacked to a batch .*collate="
        for items in ([self.x[0], self.x[:2]], [{"a": 1}, {"b": 1}], [{"a": 1}, self.x[0]], [(1, 2), (1, 2, 3)]):
            for tensors in (False, TORCH):
                with self.assertRaisesRegex(downpour.TrainingError, says):
                    Examples(items, None, tensors, "train").batch([0, 1], SEED)

    def test_variables_of_one_name(self):
        from downpour.variables import Variable, check

        with self.assertRaisesRegex(downpour.TrainingError, "two variables have the name a: rename one"):
            check([Variable("a", (1,)), Variable("b", (1,)), Variable("a", (2,))])


if __name__ == "__main__":
    unittest.main()
