"""Instances of JSON into arrays, and what a program returns into JSON."""

import unittest

from package import is_there  # first: it says where the others are

import numpy

from downpour.errors import InstanceError, TrainingError
from downpour.instances import Types, batch_of, not_finite_in, plain, rows_of, types_of


class IntoTheModelTest(unittest.TestCase):
    def batch(self, instances, names=None, needed=()):
        return batch_of(instances, Types({}, numpy.int64), names, needed)

    def test_numbers_have_the_type_of_what_they_are(self):
        for instances, kind, shape in (([1, 2], "int64", (2,)), ([1, 2.5], "float32", (2,)),
                                       ([True, False], "bool", (2,)), ([[1, 2], [3, 4]], "int64", (2, 2)),
                                       ([[[0.5]], [[1]]], "float32", (2, 1, 1)), ([True, 2], "int64", (2,))):
            array = self.batch(instances)
            self.assertEqual((array.dtype.name, array.shape), (kind, shape), instances)
        self.assertEqual(self.batch([2**62, -(2**62)]).tolist(), [2**62, -(2**62)])

    def test_numbers_become_what_the_model_was_trained_with_or_what_the_example_shows(self):
        class Model:
            def forward(self, a, b):
                pass

        batch = (numpy.ones(1, numpy.float32), numpy.ones(1, numpy.uint8), numpy.ones(1))
        for types in (types_of(Model(), batch, None), types_of(Model(), None, {"a": 1.0, "b": [1]})):
            made = batch_of([{"a": 1, "b": 2}], types)
            self.assertEqual((made["a"].dtype.kind, made["b"].dtype.kind in "iu"), ("f", True))
            for wrong in (2.5, 2**70):
                with self.assertRaisesRegex(InstanceError, "row 1: input 'b'"):
                    batch_of([{"a": 1, "b": 2}, {"a": 1, "b": wrong}], types)
        self.assertEqual(batch_of([1], types_of(Model(), (numpy.ones(1, bool), 0), None)).dtype.name, "bool")
        self.assertEqual(batch_of([1], types_of(Model(), None, None)).dtype.name, "float32")

    def test_whole_numbers_of_64_bits_stay_exact_beside_floats(self):
        types = Types({"": numpy.dtype("int64")}, numpy.int64)
        large = 2**62 + 1
        self.assertEqual(batch_of([large, 3.0, -large], types).tolist(), [large, 3, -large])
        self.assertEqual(batch_of([[large, 2.0, 0], [1.0, large, 2]], types).tolist(), [[large, 2, 0], [1, large, 2]])
        for wrong in (2.5, 1e300, 2.0**63, 2**63):
            with self.assertRaisesRegex(InstanceError, "row 1: the instance has a number that int64 does"):
                batch_of([large, wrong], types)

    def test_a_number_that_no_float_holds_is_named(self):
        types = Types({"a": numpy.dtype("float32")}, numpy.float32)
        for wrong in (1e39, [0.5, -1e300], 2**200):
            with self.assertRaisesRegex(InstanceError, "row 0: input 'a' "):
                batch_of([{"a": wrong}], types)
        self.assertEqual(batch_of([{"a": 3e38}], types)["a"].tolist(), [numpy.float32(3e38)])

    def test_an_object_has_an_input_for_each_name(self):
        batch = self.batch([{"a": 1, "b": [0.5, 1]}, {"b": [2, 3], "a": 7}], ["a", "b", "c"])
        self.assertEqual((batch["a"].tolist(), batch["b"].dtype.name), ([1, 7], "float32"))

    def test_what_does_not_fit_is_named_by_its_row(self):
        for instances, words in (
            ([[1, 2], [3]], r"row 1: the instance has the shape \[1\], where row 0 has \[2\]"),
            ([1, "x"], 'row 1: the instance is "x": give numbers'),
            ([None], "row 0: the instance is null"),
            ([["red"]], r'row 0: the instance is \["red"\]: give numbers'),
            ([[1, [2]]], "row 0: the instance has lists of several lengths"),
            ([2**70], "row 0: the instance is 118"),
            ([{"a": 1}, {"b": 1}], "row 1: it has other inputs than row 0, which has a"),
            ([{"a": 1}, 3], "row 1: it has other inputs"),
            ([{"a": "x"}], "row 0: input 'a' is"),
            ([{"z": 1}], "row 0: the model has no input 'z': its inputs are a, b"),
        ):
            with self.assertRaisesRegex(InstanceError, words):
                self.batch(instances, ["a", "b"])

    def test_an_input_that_the_model_cannot_do_without_is_named(self):
        for instances, words in (([{"a": 1}], "row 0: it lacks input 'b'"),
                                 ([[1, 2]], "row 0: it is no object with the inputs a, b")):  # fmt: skip
            with self.assertRaisesRegex(InstanceError, words):
                self.batch(instances, ["a", "b", "c"], ["a", "b"])
        self.assertEqual(set(self.batch([{"b": 1, "a": 2}], ["a", "b", "c"], ["a", "b"])), {"a", "b"})


class OutOfTheModelTest(unittest.TestCase):
    def test_each_form_comes_to_a_prediction_for_each_row(self):
        ones = numpy.ones(2, numpy.float32)
        for answer, rows in (
            (ones, [1.0, 1.0]),
            (["a", "b"], ["a", "b"]),
            (("a", "b"), ["a", "b"]),
            ({"p": ones, "q": ["a", "b"], "none": None}, [{"p": 1.0, "q": "a"}, {"p": 1.0, "q": "b"}]),
            ((ones, numpy.zeros((2, 2))), [{"output_0": 1.0, "output_1": [0.0, 0.0]}] * 2),
            ([{"p": numpy.int64(3)}, {"p": ones}], [{"p": 3}, {"p": [1.0, 1.0]}]),
            (numpy.array([b"x", b"y"]), ["x", "y"]),
            ([None, True], [None, True]),
        ):
            self.assertEqual(rows_of(answer, 2), rows)

    @unittest.skipUnless(is_there("torch"), "there is no torch for this Python")
    def test_tensors_are_lists(self):
        import torch

        answer = torch.ones(2, 1, requires_grad=True) * 0.5
        self.assertEqual(rows_of(answer, 2), [[0.5], [0.5]])
        self.assertEqual(plain(torch.tensor(3)), 3)
        self.assertEqual(rows_of(answer.half(), 2), [[0.5], [0.5]])

    def test_what_is_no_prediction_for_each_row_is_refused(self):
        for answer, words in (
            (numpy.ones(3), r"an array of shape \[3\] for 2 instances"),
            ([1], "1 predictions for 2 instances"),
            (7, "an int for 2 instances"),
            (None, "a NoneType for 2 instances"),
            ({}, "a dict for 2 instances"),
            ({"p": [1]}, "1 predictions for 2 instances"),
            ([object(), 1], "an object, which JSON has not"),
            (numpy.array([1j, 2j]), "a ndarray, which JSON has not"),
        ):
            with self.assertRaisesRegex(TrainingError, words):
                rows_of(answer, 2)

    def test_what_no_reader_of_json_takes_is_refused(self):
        deep = []
        for _ in range(40):
            deep = [deep]
        for answer, words in (([10**400], "more than 64 bits"), ([{"a": [2**64]}], "more than 64 bits"),
                              ([deep], "more than 24 lists and dicts in each other")):  # fmt: skip
            with self.assertRaisesRegex(TrainingError, words):
                rows_of(answer, 1)
        self.assertEqual(rows_of([2**64 - 1, -(2**63), True], 3), [2**64 - 1, -(2**63), True])

    def test_the_first_number_that_is_not_finite_is_named_by_its_row(self):
        self.assertIsNone(not_finite_in([1.0, {"a": [2.0, "nan"]}]))
        self.assertRegex(str(not_finite_in([1.0, {"a": [2.0, float("inf")]}])), "row 1: the prediction has inf")


if __name__ == "__main__":
    unittest.main()
