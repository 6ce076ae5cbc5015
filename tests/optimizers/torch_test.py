"""Holds the optimizers of the ps against others: 100 steps on the same gradients, value by value.

    torch_test.py torch REPLAY    torch.optim, in double; exits 77 (skipped) where torch is not installed
    torch_test.py ftrl REPLAY     Algorithm 1 of McMahan et al., KDD 2013, written out below: torch has no FTRL
    torch_test.py local REPLAY    what the Python package applies where there is no job, in NumPy

REPLAY is the program of replay_optimizer.cc. After each step every variable differs by at most 1e-5 of its largest
value: what 100 roundings of 32-bit floats make.
"""

import array
import json
import math
import pathlib
import random
import subprocess
import sys
import unittest

STEPS = 100
MOST_APART = 1e-5
SHAPES = {"dense_0/kernel": 13 * 7, "dense_0/bias": 7, "dense_1/kernel": 7 * 3, "dense_1/bias": 3}
RATE = 0.05


def drawn_gradients():
    """Of each step the gradient of each variable: of many sizes, with zeros, and larger from time to time."""
    draw = random.Random(7)

    def element(step, index):
        size = (10 if step % 9 == 4 else 1) * 10.0 ** (index % 4 - 3)
        return 0.0 if index % 11 == 5 and step % 3 else draw.gauss(0.3, 1) * size

    steps = [[[element(s, i) for i in range(n)] for n in SHAPES.values()] for s in range(STEPS)]
    return [[array.array("f", variable) for variable in step] for step in steps]


GRADIENTS = drawn_gradients()


def replay(optimizer, **training):
    """The initial values, and those after each step, by variable."""
    job = {
        "name": "replay",
        "model": {
            "inputs": [{"name": "x", "shape": [13]}],
            "layers": [{"dense": {"units": 7}}, {"dense": {"units": 3}}],
        },
        "training": {"batchSize": 1, "optimizer": {"learningRate": RATE, **optimizer}, **training},
        "data": {"train": {"images": "a", "labels": "b"}},
    }
    pushed = b"".join(variable.tobytes() for step in GRADIENTS for variable in step)
    done = subprocess.run([REPLAY, json.dumps(job), str(STEPS)], input=pushed, stdout=subprocess.PIPE, check=True)
    floats = array.array("f", done.stdout)
    per_step = sum(SHAPES.values())
    if len(floats) != per_step * (STEPS // training.get("localSteps", 1) + 1):
        raise ValueError(f"{len(floats)} values came back")
    states = []
    for at in range(0, len(floats), per_step):
        states.append([])
        for size in SHAPES.values():
            states[-1].append(list(floats[at : at + size]))
            at += size
    return states


def apart(ours, theirs):
    """The largest difference of any variable at any step, as a share of its largest value."""
    worst = 0
    for ours_then, theirs_then in zip(ours, theirs, strict=True):
        for a, b in zip(ours_then, theirs_then, strict=True):
            largest = max(abs(x) for x in b)
            difference = max(abs(x - y) for x, y in zip(a, b, strict=True))
            worst = max(worst, difference / largest if largest > 0 else difference)
    return worst


COSINE = {"name": "cosine"}


def local(steps, **outer):
    """Of a job whose worker takes so many steps alone."""
    return {"localSteps": steps, "leaseBatches": 20, "outer": outer}


# As torch has each kind without further settings.
PLAIN_KINDS = (
    ({"name": "sgd"}, lambda v: torch.optim.SGD(v, RATE)),
    ({"name": "momentum"}, lambda v: torch.optim.SGD(v, RATE, momentum=0.9)),
    ({"name": "nesterov"}, lambda v: torch.optim.SGD(v, RATE, momentum=0.9, nesterov=True)),
    ({"name": "adagrad"}, lambda v: torch.optim.Adagrad(v, RATE)),
    ({"name": "rmsprop"}, lambda v: torch.optim.RMSprop(v, RATE)),
    ({"name": "adam"}, lambda v: torch.optim.Adam(v, RATE)),
    ({"name": "adamw"}, lambda v: torch.optim.AdamW(v, RATE)),
)


class Torch(unittest.TestCase):
    def of_torch(self, initial, make, schedule=None, clip=None, groups=lambda variables: variables, between=None):
        variables = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in initial]
        optimizer = make(groups(variables))
        scheduler = schedule(optimizer) if schedule else None
        states = [initial]
        for step, gradients in enumerate(GRADIENTS, 1):
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.grad = torch.tensor(list(gradient), dtype=torch.float64)
            if clip:
                clip(variables)
            optimizer.step()
            if scheduler:
                scheduler.step()
            if between:
                between(step, variables)
            states.append([v.tolist() for v in variables])
        return states

    def assert_equal(self, optimizer, make, training=None, every=1, **more):
        ours = replay(optimizer, **(training or {}))
        theirs = self.of_torch(ours[0], make, **more)[::every]
        self.assertLess(apart(ours, theirs), MOST_APART, (optimizer, training))

    def test_local_steps_that_are_applied_as_they_are_are_plain_steps(self):
        for settings, make in PLAIN_KINDS:
            for steps in (1, 5):
                with self.subTest(steps=steps, **settings):
                    self.assert_equal(settings, make, local(steps, name="sgd"), steps)

    def test_local_steps_are_scheduled_and_clipped_as_plain_steps(self):
        self.assert_equal(
            {"name": "momentum", "clipValue": 0.4, "clipNorm": 1.5, "weightDecay": 0.03, "schedule": COSINE},
            lambda v: torch.optim.SGD(v, RATE, 0.9, weight_decay=0.03),
            local(4, name="sgd"),
            every=4,
            schedule=lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS),
            clip=lambda v: (torch.nn.utils.clip_grad_value_(v, 0.4), torch.nn.utils.clip_grad_norm_(v, 1.5)),
        )

    def diloco(self, initial, steps, make_outer):
        """Algorithm 1 of Douillard et al. 2023 with one worker, as what is done between its inner steps."""
        shared = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in initial]
        outer = make_outer(shared)

        def between(step, variables):
            if step % steps:
                return
            for own, kept in zip(variables, shared, strict=True):
                kept.grad = (kept - own).detach()
            outer.step()
            with torch.no_grad():
                for own, kept in zip(variables, shared, strict=True):
                    own.copy_(kept)

        return between

    def test_what_servers_do_with_local_steps_is_diloco(self):
        sgd = torch.optim.SGD
        for outer, make_outer in (
            ({"name": "nesterov"}, lambda v: sgd(v, 0.7, momentum=0.9, nesterov=True)),
            ({"name": "momentum", "learningRate": 0.3, "momentum": 0.5}, lambda v: sgd(v, 0.3, momentum=0.5)),
            ({"name": "sgd", "learningRate": 0.5}, lambda v: sgd(v, 0.5)),
        ):
            for settings, make in (
                ({"name": "adamw"}, lambda v: torch.optim.AdamW(v, RATE)),
                ({"name": "momentum"}, lambda v: sgd(v, RATE, 0.9)),
            ):
                with self.subTest(outer=outer, **settings):
                    training = local(10, **outer)
                    initial = replay(settings, **training)[0]
                    between = self.diloco(initial, 10, make_outer)
                    self.assert_equal(settings, make, training, every=10, between=between)

    def test_each_kind_with_torchs_defaults(self):
        for settings, make in PLAIN_KINDS:
            with self.subTest(**settings):
                self.assert_equal(settings, make)

    def test_each_kind_with_numbers_of_its_own_and_weight_decay(self):
        optim = torch.optim
        decay = {"weight_decay": 0.03}
        adam = {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4}
        of_torch = {"betas": (0.8, 0.95), "eps": 1e-4, **decay}
        for settings, make in (
            ({"name": "sgd"}, lambda v: optim.SGD(v, RATE, **decay)),
            ({"name": "momentum", "momentum": 0.7}, lambda v: optim.SGD(v, RATE, 0.7, **decay)),
            ({"name": "nesterov", "momentum": 0.7}, lambda v: optim.SGD(v, RATE, 0.7, nesterov=True, **decay)),
            (
                {"name": "adagrad", "initialAccumulator": 0.2, "epsilon": 1e-3},
                lambda v: optim.Adagrad(v, RATE, initial_accumulator_value=0.2, eps=1e-3, **decay),
            ),
            (
                {"name": "rmsprop", "alpha": 0.8, "epsilon": 1e-3},
                lambda v: optim.RMSprop(v, RATE, alpha=0.8, eps=1e-3, **decay),
            ),
            ({"name": "adam", **adam}, lambda v: optim.Adam(v, RATE, **of_torch)),
            ({"name": "adamw", **adam}, lambda v: optim.AdamW(v, RATE, **of_torch)),
        ):
            with self.subTest(**settings):
                self.assert_equal({"weightDecay": 0.03, **settings}, make)

    def test_schedules(self):
        rates = torch.optim.lr_scheduler

        def warm(share):
            return lambda optimizer: rates.LambdaLR(optimizer, share)

        def warmed_cosine(k):
            if k < 20:
                return (k + 1) / 20
            return 0.1 + 0.9 * (1 + math.cos(math.pi * (k - 20) / 60)) / 2 if k < 80 else 0.1

        for schedule, theirs in (
            ({"name": "step", "stepEvery": 30}, lambda o: rates.StepLR(o, 30)),
            ({"name": "cosine"}, lambda o: rates.CosineAnnealingLR(o, STEPS)),
            ({"name": "cosine", "finalShare": 0.1}, lambda o: rates.CosineAnnealingLR(o, STEPS, 0.1 * RATE)),
            ({"name": "constant", "warmupSteps": 40}, warm(lambda k: min(1, (k + 1) / 40))),
            ({"name": "cosine", "warmupSteps": 20, "totalSteps": 80, "finalShare": 0.1}, warm(warmed_cosine)),
            (
                {"name": "inverseSquareRoot", "warmupSteps": 16},
                warm(lambda k: min((k + 1) ** -0.5, (k + 1) * 16**-1.5) * 16**0.5),
            ),
        ):
            for name, make in (
                ("sgd", lambda v: torch.optim.SGD(v, RATE)),
                ("momentum", lambda v: torch.optim.SGD(v, RATE, 0.9)),
                ("adamw", lambda v: torch.optim.AdamW(v, RATE)),
            ):
                with self.subTest(schedule=schedule, name=name):
                    self.assert_equal({"name": name, "schedule": schedule}, make, schedule=theirs)

    def test_clipping(self):
        utils = torch.nn.utils

        def both(variables):
            utils.clip_grad_value_(variables, 0.4)
            utils.clip_grad_norm_(variables, 1.5)

        for settings, clip in (
            ({"clipValue": 0.2}, lambda v: utils.clip_grad_value_(v, 0.2)),
            ({"clipNorm": 1.5}, lambda v: utils.clip_grad_norm_(v, 1.5)),
            ({"clipValue": 0.4, "clipNorm": 1.5, "weightDecay": 0.03}, both),
        ):
            with self.subTest(**settings):
                decay = settings.get("weightDecay", 0)
                self.assert_equal(
                    {"name": "momentum", **settings},
                    lambda v, decay=decay: torch.optim.SGD(v, RATE, 0.9, weight_decay=decay),
                    clip=clip,
                )

    def test_overrides_are_parameter_groups(self):
        overrides = [
            {"variables": "*/bias", "weightDecay": 0},
            {"variables": "dense_1/*", "learningRate": 0.01},
        ]

        def groups(variables):
            own = ({}, {"weight_decay": 0}, {"lr": 0.01}, {"lr": 0.01, "weight_decay": 0})
            return [{"params": [v], **more} for v, more in zip(variables, own, strict=True)]

        self.assert_equal(
            {"name": "adamw", "weightDecay": 0.1, "overrides": overrides, "schedule": {"name": "cosine"}},
            lambda v: torch.optim.AdamW(v, RATE, weight_decay=0.1),
            schedule=lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS),
            groups=groups,
        )

    def test_what_differs_is_seen(self):
        for settings in (
            {"name": "momentum", "momentum": 0.9001},
            {"name": "momentum", "weightDecay": 1e-3},
            {"name": "momentum", "clipNorm": 10},
            {"name": "momentum", "schedule": {"warmupSteps": 2}},
            {"name": "nesterov"},
        ):
            ours = replay(settings)
            theirs = self.of_torch(ours[0], lambda v: torch.optim.SGD(v, RATE, 0.9))
            self.assertGreater(apart(ours, theirs), MOST_APART, settings)
        ours = replay({"name": "momentum"}, **local(5, name="sgd", learningRate=0.999))
        theirs = self.of_torch(ours[0], lambda v: torch.optim.SGD(v, RATE, 0.9))[::5]
        self.assertGreater(apart(ours, theirs), MOST_APART)


class Ftrl(unittest.TestCase):
    def algorithm_1(self, initial, beta=1.0, lambda1=0.0, lambda2=0.0, decay=0.0, fits=False):
        """For each value by itself. Its first w is the initial one; the paper computes it from z = 0, n = 0. Where that
        `fits`, z is such that it does give the initial one."""
        w = [list(v) for v in initial]

        def first(x):
            return -(x * (beta / RATE + lambda2) + math.copysign(lambda1, x)) if fits and x != 0 else 0.0

        z = [[first(x) for x in v] for v in initial]
        n = [[0.0] * len(v) for v in initial]
        states = [initial]
        for gradients in GRADIENTS:
            for v, gradient in enumerate(gradients):
                for i, pushed in enumerate(gradient):
                    g = pushed + decay * w[v][i]
                    sigma = (math.sqrt(n[v][i] + g * g) - math.sqrt(n[v][i])) / RATE
                    z[v][i] += g - sigma * w[v][i]
                    n[v][i] += g * g
                    if abs(z[v][i]) <= lambda1:
                        w[v][i] = 0.0
                    else:
                        sign = math.copysign(1.0, z[v][i])
                        w[v][i] = -(z[v][i] - sign * lambda1) / ((beta + math.sqrt(n[v][i])) / RATE + lambda2)
            states.append([list(v) for v in w])
        return states

    def test_is_algorithm_1(self):
        for settings, theirs in (
            ({}, {}),
            ({"beta": 0.01}, {"beta": 0.01}),
            ({"l1": 0.5}, {"lambda1": 0.5}),
            ({"l2": 2}, {"lambda2": 2}),
            (
                {"beta": 0.5, "l1": 0.1, "l2": 0.3, "weightDecay": 0.03},
                {"beta": 0.5, "lambda1": 0.1, "lambda2": 0.3, "decay": 0.03},
            ),
        ):
            with self.subTest(**settings):
                ours = replay({"name": "ftrl", **settings})
                self.assertLess(apart(ours, self.algorithm_1(ours[0], **theirs)), MOST_APART)

    def test_local_steps_begin_with_the_values_that_there_are(self):
        for settings, theirs in (
            ({}, {}),
            ({"beta": 0.5, "l1": 0.1, "l2": 0.3}, {"beta": 0.5, "lambda1": 0.1, "lambda2": 0.3}),
        ):
            for steps in (1, 5):
                with self.subTest(steps=steps, **settings):
                    ours = replay({"name": "ftrl", **settings}, **local(steps, name="sgd"))
                    wanted = self.algorithm_1(ours[0], **theirs, fits=True)[::steps]
                    self.assertLess(apart(ours, wanted), MOST_APART)

    def test_l1_makes_values_zero(self):
        count = [sum(x == 0 for v in replay({"name": "ftrl", "l1": l1})[-1] for x in v) for l1 in (0, 3)]
        self.assertGreater(count[1], count[0])

    def test_what_differs_is_seen(self):
        ours = replay({"name": "ftrl", "beta": 1.001})
        self.assertGreater(apart(ours, self.algorithm_1(ours[0])), MOST_APART)


class Local(unittest.TestCase):
    """The servers' kernels against the package's own rules: every kind, with all that its settings may say."""

    def of_package(self, initial, settings):
        variables = [Variable(name, (size,)) for name, size in SHAPES.items()]
        memory = Memory(variables)
        for place, values in zip(memory.parameters, initial):
            place[:] = values
        optimizer = LocalOptimizer({"learningRate": RATE, **settings}, variables, memory, STEPS)
        states = [initial]
        for gradients in GRADIENTS:
            for place, gradient in zip(memory.gradients, gradients):
                place[:] = gradient
            optimizer.apply()
            states.append([value.tolist() for value in memory.parameters])
        return states

    def test_each_rule_is_the_servers(self):
        cosine = {"schedule": {"name": "cosine", "warmupSteps": 5}}
        for settings in (
            {"name": "sgd", "weightDecay": 0.02},
            {"name": "momentum", "momentum": 0.8},
            {"name": "nesterov", "momentum": 0.7, "weightDecay": 0.02},
            {"name": "adagrad", "epsilon": 1e-3},
            {"name": "adagrad", "initialAccumulator": 0.3},
            {"name": "rmsprop", "alpha": 0.8, "epsilon": 1e-2},
            {"name": "adam", "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3},
            {"name": "adamw", "weightDecay": 0.1},
            {"name": "ftrl", "l1": 0.1, "l2": 0.3, "beta": 0.5, "weightDecay": 0.03},
        ):
            for more in ({}, cosine, {"clipNorm": 1.5}, {"clipValue": 0.5}):
                with self.subTest(**settings, **more):
                    ours = replay({**settings, **more})
                    self.assertLess(apart(ours, self.of_package(ours[0], {**settings, **more})), 10 * MOST_APART)


if __name__ == "__main__":
    kind, REPLAY = sys.argv[1:]
    if kind == "local":
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
        try:
            from downpour.local_optimizer import LocalOptimizer
            from downpour.variables import Memory, Variable
        except ImportError:
            print("skipped: python3-numpy is not installed")
            sys.exit(77)
    if kind == "torch":
        try:
            import torch
        except ImportError:
            print("skipped: python3-torch is not installed")
            sys.exit(77)
    unittest.main(argv=[sys.argv[0], kind.capitalize()])
