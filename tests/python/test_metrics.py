"""downpour.metrics: parts of any sizes add up to what the formula gives of all examples at once."""

import json
import math
import unittest

from package import is_there  # first: it says where the others are

if is_there("numpy"):
    import numpy

    from downpour import metrics, own_metrics
    from downpour.early_stop import EarlyStop
    from downpour.errors import TrainingError
    from downpour.metrics import Judged
    from downpour.variables import Memory, Variable


def area(scores, ones):
    """By its definition, over all pairs."""
    above = scores[ones][:, None] - scores[~ones][None, :]
    return ((above > 0) + 0.5 * (above == 0)).mean()


def calibration_error(shares, target):
    """By its definition, a bin at a time."""
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == target
    bins = numpy.minimum((confidence * 15).astype(int), 14)
    parts = [(bins == one) for one in range(15)]
    return sum(abs(confidence[part].sum() - right[part].sum()) for part in parts) / len(target)


@unittest.skipUnless(is_there("numpy"), "python3-numpy: not there")
class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.draws = numpy.random.default_rng(4)
        # Log-odds that lie on the bins' edges, so that none is rounded, with many equal ones.
        self.odds = self.draws.integers(-40, 40, 300) / 32
        self.ones = self.draws.random(300) < 1 / (1 + numpy.exp(-self.odds))

    def value_of(self, metric, output, target, parts=(1, 7, 300)):
        """Of parts of any size: always the same."""
        values = []
        for size in parts:
            sums = 0
            for first in range(0, len(target), size):
                batch = slice(first, first + size)
                sums = sums + metric.sums(Judged("m", output[batch], target[batch], len(target[batch])))
            values.append(metric.value(sums, len(target)))
        numpy.testing.assert_allclose(values, values[0], rtol=1e-12)
        return values[0]

    def test_the_area_of_log_odds_of_probabilities_and_of_two_classes(self):
        target, wanted = self.ones.astype(float), area(self.odds, self.ones)
        shares = 1 / (1 + numpy.exp(-self.odds))
        both = numpy.stack([numpy.zeros(300), self.odds], axis=1)
        for metric, output in ((metrics.AUC(True), self.odds), (metrics.AUC(True), self.odds[:, None]),
                               (metrics.AUC(from_logits=True), both + 3)):
            self.assertAlmostEqual(self.value_of(metric, output, target), wanted, delta=1e-12)
        for output in (shares, numpy.stack([1 - shares, shares], axis=1)):  # each a bin away at most
            self.assertAlmostEqual(self.value_of(metrics.AUC(), output, target[:, None]), wanted, delta=0.02)

    def test_an_area_is_not_the_mean_of_the_areas_of_batches(self):
        halves = [area(self.odds[half], self.ones[half]) for half in (slice(0, 3), slice(3, 300))]
        self.assertGreater(abs(numpy.nanmean(halves) - area(self.odds, self.ones)), 1e-3)

    def test_what_is_not_defined_is_no_number(self):
        self.assertTrue(math.isnan(self.value_of(metrics.AUC(True), self.odds, numpy.ones(300))))
        self.odds[7] = math.nan
        self.assertTrue(math.isnan(self.value_of(metrics.AUC(True), self.odds, self.ones)))
        nothing = metrics.Ratio(lambda output, target: (output, 0 * target))
        self.assertTrue(math.isnan(self.value_of(nothing, self.odds, self.ones)))

    def test_a_ratio_of_numbers_for_each_example_and_of_sums(self):
        output, target = self.odds, self.ones.astype(float)
        wanted = ((output > 0) & self.ones).sum() / (output > 0).sum()
        of_each = metrics.Ratio(lambda output, target: ((output > 0) * target, output > 0), better="more")
        of_sums = metrics.Ratio(lambda output, target: (((output > 0) * target).sum(), (output > 0).sum()))
        for metric in (of_each, of_sums):
            self.assertAlmostEqual(self.value_of(metric, output, target), wanted, delta=1e-12)
        self.assertEqual((of_each.better, of_sums.better), ("more", None))

    def test_means_and_roots(self):
        target = self.ones.astype(float)
        for function in (lambda output, target: abs(output - target),
                         lambda output, target: abs(output - target)[:, None],
                         lambda output, target: abs(output - target).mean()):
            wanted = abs(self.odds - target).mean()
            self.assertAlmostEqual(self.value_of(metrics.Mean(function), self.odds, target), wanted, delta=1e-12)
        wide, aims = self.draws.random((300, 2, 3)), self.draws.random((300, 2, 3))
        self.assertAlmostEqual(self.value_of(metrics.RMSE(), wide, aims), ((wide - aims) ** 2).mean() ** 0.5, 12)
        root = ((self.odds - target) ** 2).mean() ** 0.5
        self.assertAlmostEqual(self.value_of(metrics.RMSE(), self.odds[:, None], target), root, 12)

    def test_the_calibration_error_of_logits_and_of_probabilities(self):
        logits, target = self.draws.normal(0, 2, (300, 4)), self.draws.integers(0, 4, 300)
        shares = numpy.exp(logits) / numpy.exp(logits).sum(axis=1, keepdims=True)
        wanted = calibration_error(shares, target)
        self.assertAlmostEqual(self.value_of(metrics.CalibrationError(True), logits, target), wanted, 9)
        self.assertAlmostEqual(self.value_of(metrics.CalibrationError(), shares, target), wanted, 9)

    def test_what_is_refused(self):
        ones, three = numpy.ones(3), numpy.zeros((3, 3))
        for metric, output, target, why in (
            (metrics.AUC(), ones * 3, ones, r"takes probabilities, but an output is 3: write AUC\(from_logits=True\)"),
            (metrics.AUC(), ones, ones * 0.5, "needs a target of 0 or 1"),
            (metrics.AUC(), three, ones, "is of two classes, but there are 3 outputs"),
            (metrics.AUC(), [three, three], ones, "has an output of the shape"),
            (metrics.AUC(), {"a": ones}, ones, "let the output be one tensor or array"),
            (metrics.AUC(), numpy.ones(4), ones, r"an output of the shape \[4\], but there are 3 examples"),
            (metrics.RMSE(), three, ones, r"a target of \[3\]: its error needs two of one shape"),
            (metrics.CalibrationError(), ones, ones, r"needs an output of \[N, classes\]"),
            (metrics.CalibrationError(), three + 3, ones, r"is 3: write CalibrationError\(from_logits=True\)"),
            (metrics.Ratio(lambda output, target: 3), ones, ones, "is no pair but an int"),
            (metrics.Ratio(lambda output, target: (three, 1)), ones, ones, r"of shape \[3, 3\]: return two sums"),
            (metrics.Mean(lambda output, target: None), ones, ones, "is no number but"),
            (metrics.Mean(lambda output, target: "3.0 %"), ones, ones, "is no number but a str"),
        ):
            with self.subTest(why), self.assertRaisesRegex(TrainingError, why):
                metric.sums(Judged("m", output, target, 3))
        with self.assertRaisesRegex(TrainingError, "better is 'max': say"):
            metrics.Mean(len, better="max")
        for given, why in (({"auc": metrics.AUC}, r"is a class: make one of it, as downpour.metrics.AUC\(\)"),
                           (["auc"], r"or of those of downpour.metrics"), ({"m": 3}, "must be a function"),
                           ({"accuracy": metrics.RMSE()}, "more of an accuracy is better, but less of this metric")):
            with self.subTest(given), self.assertRaisesRegex(TrainingError, why):
                own_metrics.checked(given)

    def test_as_the_job_has_it_and_as_it_is_compared(self):
        known = own_metrics.checked({"auc": metrics.AUC(), "mean": lambda output, target: output,
                                     "recall": metrics.Ratio(len, better="more"), "stars": metrics.RMSE()})
        told = [own_metrics.described(name, metric) for name, metric in known.items()]
        self.assertEqual(json.loads(json.dumps(told)), [
            {"name": "auc", "kind": "auc"}, {"name": "mean", "kind": "mean"},
            {"name": "recall", "kind": "ratio", "better": "more"}, {"name": "stars", "kind": "rmse"}])
        for name in ("auc", "recall", "accuracy"):
            self.assertLess(own_metrics.shortfall(known, name, 0.9), own_metrics.shortfall(known, name, 0.8))
        for name, better in (("auc", "more"), ("stars", "less"), ("mean", None)):
            self.assertEqual(known[name].better, better)
        for name in ("loss", "stars"):
            self.assertLess(own_metrics.shortfall(known, name, 0.8), own_metrics.shortfall(known, name, 0.9))

    def test_early_stopping_here_goes_by_what_a_job_could_go_by(self):
        known = own_metrics.checked({"auc": metrics.AUC(), "mean": lambda output, target: output})
        memory = Memory([Variable("v", (1,), True)])
        EarlyStop(None, known, memory)
        stop = EarlyStop({"metric": "auc", "patience": 1}, known, memory)
        self.assertFalse(stop.ends({"evalLoss": 1, "auc": 0.8}))
        self.assertTrue(stop.ends({"evalLoss": 0.5, "auc": 0.7}))
        for name in ("mean", "missing"):
            with self.assertRaisesRegex(TrainingError, f"metric is {name}, but .* compared by loss, accuracy, auc"):
                EarlyStop({"metric": name}, known, memory)

    def test_a_probability_of_float32_may_lie_beyond_one(self):
        output = numpy.array([1 + 1e-7, 0.5, -1e-8])
        self.assertEqual(self.value_of(metrics.AUC(), output, numpy.array([1, 1, 0]), (3,)), 1)


if __name__ == "__main__":
    unittest.main()
