"""An optimizer of torch.optim as a job's: the same steps, or a refusal by name; and what is applied without a job."""

import unittest

from package import is_there  # first: it says where the others are

import downpour

TORCH = is_there("torch")
if TORCH:
    import numpy
    import torch

    from downpour.local_optimizer import LocalOptimizer, rate_share
    from downpour.optimizers import completed, from_torch
    from downpour.variables import Memory, Variable

    SGD, ADAM = torch.optim.SGD, torch.optim.Adam

NAMES = ["a.weight", "a.bias", "b[1]*?\\x"]
SHAPES = [(4, 3), (5,), ()]


def parameters():
    draws = torch.Generator().manual_seed(5)
    return [torch.nn.Parameter(torch.randn(shape, generator=draws)) for shape in SHAPES]


@unittest.skipUnless(TORCH, "python3-torch is not there: nothing to compare with")
class OptimizerTest(unittest.TestCase):
    def settings(self, made, values):
        return from_torch([made], {id(value): name for value, name in zip(values, NAMES)})

    def compare(self, make, kind, schedule=None, settings=None, steps=60):
        """Trains by torch and by what its optimizer is mapped to."""
        values = parameters()
        made = make(values)
        mapped = {**self.settings(made, values), **(settings or {})}
        self.assertEqual(mapped["name"], kind)
        if schedule:
            mapped["schedule"] = schedule[0]
            scheduler = schedule[1](made)
        variables = [Variable(name, shape) for name, shape in zip(NAMES, SHAPES)]
        memory = Memory(variables)
        for place, value in zip(memory.parameters, values):
            place[...] = value.detach().numpy()
        local = LocalOptimizer(mapped, variables, memory, steps)
        draws = numpy.random.default_rng(1)
        for _ in range(steps):
            for value, gradient in zip(values, memory.gradients):
                gradient[...] = draws.standard_normal(gradient.shape)
                value.grad = torch.from_numpy(gradient.copy())
            if norm := mapped.get("clipNorm"):
                torch.nn.utils.clip_grad_norm_(values, norm)
            if most := mapped.get("clipValue"):
                torch.nn.utils.clip_grad_value_(values, most)
            made.step()
            if schedule:
                scheduler.step()
            local.apply()
        for place, value, name in zip(memory.parameters, values, NAMES):
            numpy.testing.assert_allclose(place, value.detach().numpy(), rtol=0, atol=2e-6, err_msg=name)

    def test_the_same_steps(self):
        for kind, make in {
            "sgd": lambda p: SGD(p, 0.1, weight_decay=0.01, dampening=0.5, foreach=False),
            "momentum": lambda p: SGD(p, 0.1, momentum=0.8),
            "nesterov": lambda p: SGD(p, 0.1, momentum=0.8, nesterov=True, weight_decay=0.01),
            "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.3, eps=1e-5),
            "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, eps=1e-4, weight_decay=0.1),
            "adam": lambda p: ADAM(p, 0.01, betas=(0.8, 0.99), eps=1e-5, weight_decay=0.1),
            "adamw": lambda p: torch.optim.AdamW(p, 0.01, betas=(0.8, 0.99)),
        }.items():
            with self.subTest(kind=kind):
                self.compare(make, kind)

    def test_groups_of_their_own(self):
        make = lambda p: SGD(
            [{"params": p[:1]}, {"params": [p[1]], "weight_decay": 0}, {"params": [p[2]], "lr": 0.02}],
            0.1, momentum=0.9, weight_decay=0.1,
        )
        self.compare(make, "momentum")
        values = parameters()
        overrides = self.settings(make(values), values)["overrides"]
        self.assertEqual(
            overrides,
            [{"variables": "a.bias", "weightDecay": 0}, {"variables": r"b\[1\]\*\?\\x", "learningRate": 0.02}],
        )

    def test_schedules_and_clipping(self):
        plain = lambda p: SGD(p, 0.1)
        of = torch.optim.lr_scheduler
        for name, keys, scheduler in [
            ("step", {"stepEvery": 7, "decay": 0.5}, lambda made: of.StepLR(made, 7, 0.5)),
            ("cosine", {}, lambda made: of.CosineAnnealingLR(made, 60)),
            ("constant", {"warmupSteps": 10}, lambda made: of.LambdaLR(made, lambda k: min(1, (k + 1) / 10))),
        ]:
            with self.subTest(name=name):
                self.compare(plain, "sgd", ({"name": name, **keys}, scheduler))
        self.compare(plain, "sgd", settings={"clipNorm": 1.5})
        self.compare(plain, "sgd", settings={"clipValue": 0.5})
        shares = [rate_share({"name": "inverseSquareRoot", "warmupSteps": 4}, k, 100) for k in (0, 3, 15)]
        self.assertEqual(shares, [0.25, 1, 0.5])

    # McMahan et al. 2013, Algorithm 1, of one number in double.
    def test_ftrl(self):
        variables = [Variable("w", (1,))]
        memory = Memory(variables)
        local = LocalOptimizer({"name": "ftrl", "learningRate": 0.1, "l1": 0.5, "l2": 0.3}, variables, memory, 50)
        z = n = w = 0.0
        for gradient in numpy.random.default_rng(2).standard_normal(50).astype(numpy.float32):
            memory.gradients[0][0] = gradient
            local.apply()
            g = float(gradient)
            sigma = ((n + g * g) ** 0.5 - n**0.5) / 0.1
            z, n = z + g - sigma * w, n + g * g
            w = 0.0 if abs(z) <= 0.5 else -(z - numpy.sign(z) * 0.5) / ((1 + n**0.5) / 0.1 + 0.3)
            self.assertAlmostEqual(float(memory.parameters[0][0]), w, delta=1e-5)

    def test_a_gradient_that_is_not_finite_has_no_effect(self):
        variables = [Variable("a", (2,)), Variable("b", (2,)), Variable("mean", (1,), False)]
        for settings, moved in (({}, [False, True]), ({"clipNorm": 1}, [False, False])):
            memory = Memory(variables)
            local = LocalOptimizer(settings, variables, memory, 1)
            memory.all_gradients[:] = 0.5
            memory.gradients[0][1] = numpy.inf
            local.apply()
            self.assertEqual([bool(value.any()) for value in memory.parameters[:2]], moved)
            self.assertEqual(float(memory.parameters[2]), -0.5 if any(moved) else 0, "by rate 1")
            self.assertIn(f"{2 - sum(moved) + (not any(moved))} gradients were not finite", local.skipped())
            self.assertEqual(local.skipped(), "")

    def refused(self, make, sentence):
        values = parameters()
        with self.assertRaisesRegex(downpour.TrainingError, sentence):
            self.settings(make(values), values)

    def scheduled(self, made):
        torch.optim.lr_scheduler.StepLR(made, 3)
        return made

    def stepped(self, made, values):
        for value in values:
            value.grad = torch.ones_like(value)
        made.step()
        return made

    def test_what_is_refused_by_name(self):
        of = torch.optim
        for make, sentence in [
            (lambda p: SGD(p, 0.1, momentum=0.9, dampening=0.1), "no SGD with dampening=0.1"),
            (lambda p: SGD(p, 0.1, maximize=True), "no SGD with maximize=True"),
            (lambda p: ADAM(p, amsgrad=True), "no Adam with amsgrad=True"),
            (lambda p: of.RMSprop(p, centered=True), "no RMSprop with centered=True"),
            (lambda p: of.RMSprop(p, momentum=0.5), "no RMSprop with momentum=0.5"),
            (lambda p: of.Adagrad(p, lr_decay=0.1), "no Adagrad with lr_decay=0.1"),
            (lambda p: of.Adadelta(p), "optimizer is an Adadelta, which .*: take SGD, Adagrad"),
            (lambda p: type("Own", (SGD,), {})(p, 0.1), "optimizer is an Own"),
            (lambda p: ADAM(p, 0.1, eps=1e-17), "epsilon is 1e-17, but must be between 1e-16"),
            (lambda p: SGD(p, 0.0), "learningRate is 0.0, but must be between 1e-37"),
            (lambda p: SGD(p, 0.1, momentum=1.0), "momentum is 1.0, but must be at least 0 and below 1"),
            (lambda p: SGD(p, 2, weight_decay=0.5), "weightDecay times learningRate is 1 or more"),
            (lambda p: self.scheduled(SGD(p, 0.1)), "has a scheduler: .* training.optimizer.schedule"),
            (lambda p: self.stepped(ADAM(p), p), "has made steps before"),
            (lambda p: self.stepped(SGD(p, 0.1, momentum=0.9), p), "has made steps before"),
            (lambda p: ADAM([{"params": p[:2]}, {"params": p[2:], "eps": 1e-3}]), "have the epsilon 1e-08 and 0.001"),
            (lambda p: SGD([{"params": p[:2]}, {"params": p[2:], "momentum": 0.9}], 0.1), "the name sgd and momentum"),
        ]:
            with self.subTest(sentence=sentence):
                self.refused(make, sentence)

    def test_several_of_one_kind_are_groups_of_one(self):
        values = parameters()
        names = {id(value): name for value, name in zip(values, NAMES)}
        made = [ADAM(values[:2], 0.01, betas=(0.5, 0.9)), ADAM(values[2:], 0.02, betas=(0.5, 0.9))]
        settings = from_torch(made, names)
        self.assertEqual(settings["overrides"], [{"variables": r"b\[1\]\*\?\\x", "learningRate": 0.02}])
        self.assertEqual((settings["name"], settings["learningRate"], settings["beta1"]), ("adam", 0.01, 0.5))
        for one, other, sentence in [
            (ADAM(values[:2]), SGD(values[2:], 0.1), "optimizer has Adam and SGD, but .*: give optimizers of one kind"),
            (SGD(values[:2], 0.1), SGD(values[1:], 0.1), "two of them have a.bias: give it to one"),
            (SGD(values[:2], 0.1), SGD(values[2:], 0.1, momentum=0.9), "have the name sgd and momentum"),
            (SGD(values[:2], 0.1), SGD(values[2:], 0.0), "the group of .* has a learning rate of 0"),
            (SGD(values[:2], 0.1), self.stepped(ADAM(values[2:]), values), "has made steps before"),
        ]:
            with self.subTest(sentence=sentence), self.assertRaisesRegex(downpour.TrainingError, sentence):
                from_torch([one, other], names)

    def test_a_group_that_stands_still_is_named_with_the_remedy(self):
        values = parameters()
        groups = [{"params": values[:1]}, {"params": values[1:], "lr": 0.0}]
        with self.assertRaises(downpour.TrainingError) as raised:
            self.settings(SGD(groups, lr=0.1), values)
        self.assertIn("the group of a.bias and 1 more has a learning rate of 0", str(raised.exception))
        self.assertIn("leave these parameters out of the optimizer, or set requires_grad=False", str(raised.exception))

    def test_more_overrides_than_a_job_has(self):
        values = [torch.nn.Parameter(torch.ones(1)) for _ in range(2003)]
        made = SGD([{"params": values[:1002]}, {"params": values[1002:], "lr": 0.5}], 0.1)
        with self.assertRaisesRegex(downpour.TrainingError, "1001 variables have numbers of their own"):
            from_torch([made], {id(value): f"v{index}" for index, value in enumerate(values)})

    def test_keys_of_a_job_file(self):
        self.assertEqual(completed({})["learningRate"], 0.01)
        self.assertEqual(completed({"name": "adamw", "schedule": {"name": "cosine"}})["weightDecay"], 0.01)
        for settings, sentence in [
            ({"name": "lion"}, "there is no 'lion': name one of sgd, momentum"),
            ({"beta1": 0.5}, "sgd has no beta1: its keys are learningRate"),
            ({"learningRate": "much"}, "learningRate is 'much'"),
            ({"learningRate": True}, "learningRate is True"),
            ({"clipNorm": -1}, "clipNorm is -1, but must be 0, or between"),
            ({"name": "momentum", "momentum": 0.99999999}, "also as a 32-bit float"),
        ]:
            with self.assertRaisesRegex(downpour.TrainingError, sentence):
                completed(settings)


if __name__ == "__main__":
    unittest.main()
