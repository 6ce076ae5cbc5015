"""A loop of the user's own over downpour.steps; models of NumPy arrays; and draws, which are the plan's."""

import os
import unittest

from package import is_there  # first: it says where the others are

NUMPY, TORCH = is_there("numpy"), is_there("torch")
if NUMPY:
    import numpy
    from worker import ChildTest
else:
    ChildTest = unittest.TestCase
if TORCH:
    import forked

LOOP = """
import sys, torch, downpour
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 3))
items = [{"x": torch.randn(4), "y": number % 3, "number": number} for number in range(40)]
optimizer = torch.optim.SGD(model.parameters(), 0.1)
entropy = torch.nn.functional.cross_entropy
def evaluate(model, batch):
    output = model(batch["x"])
    return entropy(output, batch["y"]), output, batch["y"]
steps = downpour.steps(items, batch_size=8, epochs=2, optimizer=optimizer, eval=items[:10], evaluate=evaluate)
for batch in steps:
    {before}
    loss = entropy(model(batch["x"]), batch["y"])
    loss.backward()
    {after}
    downpour.push(model, loss=loss)
    {end}
print(list(steps.history))
"""
# By default, items of NumPy; a step that needs no torch at all.
ARRAYS = """
import sys
import numpy, downpour
assert "torch" not in sys.modules
draws = numpy.random.default_rng(1)
x = draws.standard_normal((60, 3)).astype(numpy.float32)
y = x @ numpy.float32([1, -2, 3]) + 0.5
values = {"w": numpy.zeros(3, numpy.float32), "b": numpy.zeros((), numpy.float32)}
values["unused"] = numpy.ones(2, numpy.float32)
def step(values, batch):
    x, y = batch
    error = x @ values["w"] + values["b"] - y
    return (error**2).mean(), {"w": 2 * x.T @ error / len(y), "b": 2 * error.mean()}, error, y
options = {"train": (x, y), "eval": (x[:20], y[:20])}
{change}
_, history = downpour.fit(values, step=step, optimizer={"learningRate": 0.1}, epochs=20, batch_size=10,
                          metrics={"rmse": lambda error, y: (error**2).mean()}, **options)
print(list(history)[-1], values["w"].tolist(), float(values["b"]))
assert "torch" not in sys.modules
"""
# Two models with an optimizer each, as both see the same batch; and by PyTorch alone.
GAN = """
import sys, torch, downpour
torch.manual_seed(1)
nn = torch.nn
both = nn.ModuleDict({"maker": nn.Linear(2, 3), "critic": nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1))})
maker, critic = both["maker"], both["critic"]
optimizers = [torch.optim.Adam(maker.parameters(), 0.02), torch.optim.Adam(critic.parameters(), 0.005)]
real, noise = torch.randn(30, 3) + 2, torch.randn(30, 2)
alone = sys.argv[1] == "alone"
steps = ((real, noise) for _ in range(20)) if alone else downpour.steps(
    (real, noise), batch_size=30, epochs=20, optimizer=optimizers)
judge = nn.functional.binary_cross_entropy_with_logits
for real, noise in steps:
    both.zero_grad()
    made = maker(noise)
    scores = critic(torch.cat([real, made.detach()]))
    critic_loss = judge(scores, (torch.arange(60)[:, None] < 30).float())
    critic_loss.backward()
    maker_loss = judge(critic(made), torch.ones(30, 1))
    maker_loss.backward(inputs=list(maker.parameters()))
    if alone:
        [optimizer.step() for optimizer in optimizers]
    else:
        {after}
        downpour.push(both, loss=critic_loss + maker_loss)
print([value.tolist() for value in both.parameters()])
"""
DRAWS = """
import random, numpy, torch, downpour
class Noise:
    def __len__(self): return 30
    def __getitem__(self, index):
        return torch.tensor([random.random(), numpy.random.rand(), float(torch.rand(())), 1.0]), index % 3
model = torch.nn.Sequential(torch.nn.Linear(4, 40), torch.nn.Dropout(0.5), torch.nn.Linear(40, 3))
downpour.fit(model, train=Noise(), eval=Noise(), loss=torch.nn.CrossEntropyLoss())
"""


class StepsTest(ChildTest):
    if TORCH:
        start = staticmethod(forked.start)

    def loop(self, before="pass", after="pass", end="pass"):
        self.write(LOOP.replace("{before}", before).replace("{after}", after).replace("{end}", end))

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_loop_of_ones_own_beside_a_worker(self):
        gradients = []
        zero = "model.zero_grad(set_to_none={})"
        for place in ({}, {"before": zero.format(False)}, {"before": zero.format(True)}, {"end": zero.format(False)}):
            self.loop(**place)
            worker = self.work()
            self.assertEqual(worker.first["ready"]["classes"], 3)
            answer = worker.train((range(8), 1), (range(8, 12), 2))["trained"]
            self.assertEqual(answer["examples"], 12)
            gradients.append({name: worker.gradient(name).copy() for name in worker.names})
            evaluated = worker.ask({"evaluate": {"batches": [list(range(10))]}})["evaluated"]
            self.assertEqual(evaluated["examples"], 10)
            again = worker.train((range(8), 1), (range(8, 12), 2))["trained"]
            self.assertEqual(again, answer, "the evaluation has left train mode as it was")
        for name, value in gradients[0].items():
            self.assertTrue(value.any() or name == "0.bias", name)
            for others in gradients[1:]:
                numpy.testing.assert_array_equal(value, others[name], name)

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_loop_of_ones_own_by_itself(self):
        self.loop(after="print('batch', batch['number'].tolist())")
        said = self.alone()
        batches = [eval(line[6:]) for line in said.splitlines() if line.startswith("batch ")]
        self.assertEqual([len(batch) for batch in batches], [8] * 11, "the probe, and two epochs")
        orders = [sum(batches[first : first + 5], []) for first in (1, 6)]
        for order, other in (orders, [orders[1], list(range(40))]):
            self.assertEqual(sorted(order), list(range(40)))
            self.assertNotEqual(order, other)
        first, last = eval(said.splitlines()[-1])
        self.assertLess(last["loss"], first["loss"])
        self.assertIn("evalAccuracy", last)

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_loops_that_are_wrong(self):
        for before, after, sentence in [
            ("pass", "continue", "a batch came without a push of the one before"),
            ("pass", "optimizer.step() if 'seen' in vars() else None; seen = 1", "leave optimizer.step.. out"),
            ("pass", "optimizer.step()", "leave optimizer.step.. out"),
            ("pass", "downpour.push(model, loss=loss)", "push was called twice for one batch"),
            ("pass", "if 'seen' in vars(): downpour.push(model, loss=loss)\n    seen = 1", "push was called twice"),
            ("pass", "model = torch.nn.Linear(4, 3) if 'seen' in vars() else model; seen = 1", "another model than"),
            ("pass", "model.zero_grad(set_to_none=True)", "no parameter of the model has a gradient: call loss.backw"),
            ("pass", "loss = loss.detach().expand(2)", r"the loss is no number but a tensor of shape \[2\]"),
        ]:
            self.loop(before, after)
            with self.subTest(after=after):
                self.assertRegex(self.alone(code=1), f"(Training|Misuse)Error: .*{sentence}")
        for optimizer in ("SGD", "Adam"):
            for before_push in (True, False):
                stepping = {"after" if before_push else "end": "optimizer.step()"}
                self.loop(**stepping)
                task = self.folder / "task.py"
                task.write_text(task.read_text().replace("optim.SGD", f"optim.{optimizer}"))
                sentence = self.describe(code=78)[2] if before_push else self.alone(code=1)
                self.assertIn("the loop changed the parameters: leave optimizer.step() out", sentence)
        self.write("import downpour\ndownpour.steps([1], eval=[1])")
        self.assertIn("downpour: eval= and evaluate=", self.describe(code=78)[2])
        self.loop(after="break")
        self.assertIn("never called downpour.fit", self.describe(code=78)[2])

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_loop_that_breaks_its_rules_late_does_so_at_every_try(self):
        later = "    if 'seen' in vars():\n        {}\n    seen = 1"
        for place, what, first, sentence in [
            ("end", "optimizer.step()", True, "the loop changed the parameters: leave optimizer.step.. out"),
            ("end", "optimizer.step()", False, "the loop changed the parameters: leave optimizer.step.. out"),
            ("end", "downpour.push(model, loss=loss)", True, "push was called twice for one batch"),
            ("after", "continue", False, "a batch came without a push of the one before"),
            ("after", "downpour.push(torch.nn.Linear(4, 3), loss=loss)", False, "push was given another model"),
            ("end", "torch.nn.init.zeros_(model[0].weight)", True, "0.weight was changed, and behind the first"),
            ("after", "model[0].weight.data -= 0.1 * model[0].weight.grad", False, "0.weight was changed, and behind"),
            ("end", "model[1].bias.data = model[1].bias.data.clone()", False, "1.bias was .* a write to its data"),
        ]:
            self.loop(**{place: what if first else later.format(what).strip()})
            with self.subTest(what=what, first=first):
                worker = self.work()
                error = (worker.hear() if first else worker.train((range(8), 1)))["error"]
                self.assertRegex(error["message"], sentence)
                self.assertRegex(error["where"], r"^task.py:[12]\d, in <module>: ")
                self.assertTrue(error["ended"])
                self.assertEqual(error["unasked"], first)
                if what == "optimizer.step()":
                    self.assertIn(what, error["where"], "the line that calls it")

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_the_step_of_an_optimizer_that_is_not_the_jobs_is_refused(self):
        parts = "\nother = torch.optim.{}\n"
        scheduled = "Adam(critic.parameters())\ntorch.optim.lr_scheduler.StepLR(other, 1)"
        for made in ("SGD(model[2].parameters(), 0.1)", "Adam(critic.parameters())", scheduled):
            for place in ("after", "end"):
                self.loop(**{place: "other.step()"})
                task = self.folder / "task.py"
                text = task.read_text().replace("SGD(model.parameters()", "SGD(model[0].parameters()")
                other = "\ncritic = torch.nn.Linear(3, 1)" + parts.format(made)
                task.write_text(text.replace("steps = downpour", other + "steps = downpour"))
                with self.subTest(made=made, place=place):
                    self.assertIn("the step() of another optimizer than the job's", self.alone(code=1))

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_several_optimizers_each_have_parameters_of_their_own(self):
        self.write(GAN.replace("{after}", "pass"))
        ours, theirs = (eval(self.alone(how).splitlines()[-1]) for how in ("job", "alone"))
        for value, wanted in zip(ours, theirs):
            numpy.testing.assert_allclose(value, wanted, atol=1e-5)
        description, _, _ = self.describe("job")
        overrides = description["settings"]["training.optimizer"]["overrides"]
        self.assertEqual([one["variables"] for one in overrides], ["maker.weight", "maker.bias"])
        self.write(GAN.replace("{after}", "optimizers[1].step()"))
        self.assertIn("leave optimizer.step() out, push is in its place", self.alone("job", code=1))

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_an_optimizer_of_what_a_batch_alone_has_may_step_and_all_may_behind_the_loop(self):
        self.loop(before="""
    noise = torch.zeros(4, requires_grad=True)
    inner = Mine([noise], 0.1)
    noise.sum().backward()
    inner.step()
    assert (noise != 0).all()
    """)
        task = self.folder / "task.py"
        own = "class Mine(torch.optim.SGD): pass\noptimizer ="
        behind = "\nplace = torch.nn.Parameter(torch.ones(1))\nplace.sum().backward()\n"
        behind += "for kind in (Mine, torch.optim.Adam): kind([place], 0.1).step()\nprint(float(place) < 1)\n"
        task.write_text(task.read_text().replace("optimizer =", own, 1) + behind)
        self.assertEqual(self.alone().splitlines()[-1], "True")

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_what_the_optimizer_was_not_given_stays_unless_it_is_frozen(self):
        self.loop(end="torch.nn.init.constant_(model[2].weight, 0.5)")
        task = self.folder / "task.py"
        text = task.read_text()
        task.write_text(text.replace("SGD(model.parameters()", "SGD(model[0].parameters()"))
        self.assertIn("2.weight was changed in the loop but is none of the optimizer's", self.alone(code=1))
        task.write_text(text.replace("optimizer =", "model[2].weight.requires_grad_(False)\noptimizer ="))
        self.alone()  # a statistic, which the loop may keep

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_sparse_embedding_is_said_to_be_dense_here(self):
        self.write("""
import torch, downpour
model = torch.nn.Sequential(torch.nn.EmbeddingBag(1024, 4, sparse=True), torch.nn.Linear(4, 2))
items = [(torch.tensor([number]), number % 2) for number in range(8)]
downpour.fit(model, train=items, loss=torch.nn.functional.cross_entropy, batch_size=4)
""")
        self.assertRegex(self.describe()[2], "0.weight has sparse=True, .* each step moves all of its 0.0 MiB")

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_what_is_raised_behind_the_probe_is_told_from_what_a_step_raises(self):
        self.loop(end="raise ValueError('behind it')")
        error = self.work().hear()["error"]
        self.assertEqual((error["message"], error["unasked"]), ("ValueError: behind it", True))

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_parameters_that_change_in_each_batch_are_named(self):
        code = """
import torch, downpour
table = torch.nn.Embedding(9, 3)
words = torch.randint(0, 9, (40,))
def step(model, batch):
    {what}
    return torch.nn.functional.embedding(batch, model.weight, max_norm=norm).square().mean()
optimizer = torch.optim.SGD(table.parameters(), 0.1)
{loop}
"""
        fit = "downpour.fit(table, train=words, step=step, optimizer=optimizer)"
        loop = """
for batch in downpour.steps(words, optimizer=optimizer):
    loss = step(table, batch)
    loss.backward()
    downpour.push(table, loss=loss)
"""
        write = "norm = None; torch.nn.init.ones_(model.weight)"
        for what, run in [("norm = 0.1", fit), ("norm = 0.1", loop), (write, fit)]:
            with self.subTest(what=what, run=run):
                self.write(code.replace("{what}", what).replace("{loop}", run))
                error = self.work().train((range(8), 1))["error"]
                self.assertRegex(error["message"], "^weight was changed, .* an optimizer.step.., .* or max_norm$")
                self.assertTrue(error["ended"])

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_the_optimizer_is_as_it_was_once_the_loop_is_over(self):
        self.loop()
        task = self.folder / "task.py"
        task.write_text(task.read_text() + "\noptimizer.step()\nprint('stepped', 'step' in vars(optimizer))")
        self.assertEqual(self.alone().splitlines()[-1], "stepped False")

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_model_that_initializes_itself_by_its_first_batch(self):
        layer = """
class ByData(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(4))
        self.register_buffer("is_initialized", torch.tensor({flag}))
    def forward(self, x):
        if not self.is_initialized:
            with torch.no_grad():
                self.{shift}.copy_(-x.mean(0))
            self.is_initialized.fill_(1)
        return x + self.shift
model = torch.nn.Sequential(ByData(), torch.nn.Linear(4, 3))
"""
        fit = """
xs = torch.stack([item["x"] for item in items])
downpour.fit(model, train=(xs, torch.arange(40) % 3), loss=entropy, optimizer=optimizer, batch_size=8)
"""
        for flag, loop, shift in (("0", True, "shift"), ("0", False, "shift"), ("0.0", False, "shift.data")):
            with self.subTest(flag=flag, loop=loop, shift=shift):
                self.loop()
                task = self.folder / "task.py"
                layers = layer.replace("{flag}", flag).replace("{shift}", shift)
                text = task.read_text().replace("items =", layers + "items =")
                task.write_text(text if loop else text[: text.index("def evaluate")] + fit)
                worker = self.work()
                shift = worker.parameter("0.shift").copy()
                self.assertTrue(shift.any())
                worker.train((range(8, 16), 1))
                numpy.testing.assert_array_equal(worker.parameter("0.shift"), shift, "once is enough")

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_loop_that_ends_before_its_job(self):
        self.loop(after="if 'seen' in vars(): break\n    seen = 1")
        worker = self.work()
        error = worker.train((range(8), 1))["error"]
        self.assertRegex(error["message"], "ended before its job did: only training.epochs, .* end a job")
        self.assertRegex(error["where"], r"^task.py:1\d, in <module>: if 'seen' in vars\(\): break$")
        self.assertTrue(error["ended"])

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_random_draws_are_the_plans(self):
        self.write(DRAWS)
        worker, other = self.work(), self.work()
        for name in worker.names:  # each made an initial model of its own
            other.parameter(name)[...] = worker.parameter(name)
        seed = 2**64 - 1
        first = worker.train((range(8), seed))
        gradient = worker.gradient("0.weight").copy()
        other.train((range(30), 7))
        evaluate = {"evaluate": {"batches": [[3, 4]]}}
        self.assertEqual(worker.ask(evaluate), other.ask(evaluate))
        self.assertEqual(other.train((range(8), seed)), first)
        numpy.testing.assert_array_equal(other.gradient("0.weight"), gradient)
        for another in (seed - 1, seed >> 32, 1 << 32):
            self.assertNotEqual(other.train((range(8), another)), first)

    @unittest.skipUnless(TORCH, "python3-torch is not there")
    def test_a_batch_that_was_made_ahead_has_the_same_draws(self):
        self.write(DRAWS)
        worker, other = self.work(), self.work()
        for name in worker.names:
            other.parameter(name)[...] = worker.parameter(name)
        batches = [(range(8), 1), (range(8, 16), 2), (range(3), 3)]
        expected = [worker.train(batch) for batch in batches]
        gradient = worker.gradient("0.weight").copy()
        told = [other.train(batches[0], next=batches[1]), other.train(batches[1], next=batches[2])]
        other.ask({"evaluate": {"batches": [[3, 4]]}})  # whose draws come between
        self.assertEqual([*told, other.train(batches[2], next=(range(9), 4))], expected)
        numpy.testing.assert_array_equal(other.gradient("0.weight"), gradient)
        self.assertEqual(other.train(batches[1]), expected[1], "another batch than the one that was named")
        self.assertEqual(other.train((range(8), 9), next=(range(8), 1)), worker.train((range(8), 9)))
        self.assertEqual(other.train(batches[0], set=1), expected[0])


AHEAD = """
import os, sys
import numpy, downpour
class Items:
    def __len__(self): return 40
    def __getitem__(self, number):
        if number == 20 and os.path.exists(sys.argv[1]):
            open(sys.argv[1], "w").close()  # until somebody reads
        if number == 30 and not os.path.exists(sys.argv[2]):
            open(sys.argv[2], "w").close()
            raise OSError("the disk was away")
        print("item", number)
        return numpy.float32([number])
step = lambda values, batch: (float(batch.sum()), {"w": batch.sum(0)})
downpour.fit({"w": numpy.zeros(1, numpy.float32)}, train=Items(), step=step)
"""


@unittest.skipUnless(NUMPY, "python3-numpy is not there")
class AheadTest(ChildTest):
    def setUp(self):
        super().setUp()
        self.write(AHEAD)
        self.loads, self.failed = self.folder / "loads", self.folder / "failed"
        self.failed.touch()
        self.worker = self.work(str(self.loads), str(self.failed))

    def test_the_next_batch_is_made_while_the_worker_does_something_else(self):
        os.mkfifo(self.loads)
        self.worker.train((range(4), 1), next=((20, 21), 2))
        open(self.loads).close()  # it is at the data, and nobody has asked for them
        self.loads.unlink()
        self.assertEqual(self.worker.train(((20, 21), 2))["trained"]["lossSum"], 2 * 41.0)
        self.assertEqual(self.worker.end()[1].count("item 20"), 2, "once ahead, and once in the probe")

    def test_data_that_fail_ahead_are_read_again_when_they_are_asked_for(self):
        self.failed.unlink()
        self.worker.train((range(4), 1), next=((30, 31), 2))
        self.assertEqual(self.worker.train(((30, 31), 2))["trained"]["lossSum"], 2 * 61.0)
        self.assertTrue(self.failed.exists())
        self.failed.unlink()
        self.assertEqual(self.worker.train(((30, 31), 2))["error"]["message"], "OSError: the disk was away")

    def test_gradients_lie_in_the_set_that_was_asked_for(self):
        self.worker.train((range(2), 1), set=1)
        self.worker.train((range(4), 1), set=0)
        self.assertEqual((self.worker.gradient("w", of=1)[0], self.worker.gradient("w")[0]), (1, 6))
        self.worker.train((range(2), 1), (range(2, 4), 2), set=1)
        self.assertEqual(self.worker.gradient("w", of=1)[0], 3, "the mean of both batches")
        self.assertIn("IndexError", self.worker.train((range(2), 1), set=2)["error"]["message"])


@unittest.skipUnless(NUMPY, "python3-numpy is not there")
class ArraysTest(ChildTest):
    def arrays(self, change=""):
        self.write(ARRAYS.replace("{change}", change))

    def test_beside_a_worker(self):
        self.arrays()
        description, initial, _ = self.describe()
        self.assertEqual([v["name"] for v in description["variables"]], ["w", "b", "unused"])
        self.assertEqual(description["settings"]["training.optimizer"], {"learningRate": 0.1})
        self.assertEqual((description["classes"], description["trainExamples"]), (0, 60))
        worker = self.work()
        self.assertRegex(worker.first["ready"]["arithmetic"], "^numpy ")
        for _ in range(100):
            worker.train((range(0, 30), 1), (range(30, 60), 2))
            for name in worker.names:
                worker.parameter(name)[...] -= 0.1 * worker.gradient(name)
        numpy.testing.assert_allclose(worker.parameter("w"), [1, -2, 3], atol=1e-4)
        numpy.testing.assert_allclose(worker.parameter("b"), 0.5, atol=1e-4)
        numpy.testing.assert_array_equal(worker.parameter("unused"), [1, 1])
        answer = worker.ask({"evaluate": {"batches": [list(range(20))]}})["evaluated"]
        self.assertLess(answer["metricSums"][0], 1e-3)

    def test_by_itself_and_without_torch(self):
        (self.folder / "torch.py").write_text("raise ImportError('there is no torch here')")
        for change in ("", "options = {'train': list(zip(x, y)), 'eval': [(x[0], y[0])]}"):
            self.arrays(change)
            said = self.alone()
            self.assertRegex(said.splitlines()[-1], r"'rmse': .*\} \[1\.0|'rmse': .*\} \[0\.99")

    def test_its_code_cannot_write_the_parameters(self):
        self.arrays("step = lambda v, b: (1.0, {}, v['w'].__isub__(1))")
        said = self.describe(code=1)[2]
        self.assertRegex(said.splitlines()[-1], "^downpour: ValueError: output array is read-only, at task.py")

    def test_what_is_refused(self):
        for change, sentence in [
            ("values['w'] = numpy.zeros(3)", "entry 'w' is an array of float64, but .*: use numpy.asarray"),
            ("values['w'] = [1.0]", "entry 'w' is a list"),
            ("values[1] = values.pop('w')", "entry 1 has no name: its key is to be a str"),
            ("values[''] = numpy.float32([1])", "variable '' needs a name of 1 to 200 printable bytes"),
            ("values.clear()", "the model has no parameter to train"),
            ("step = None", "for a dict of arrays give step="),
            ("step = lambda v, b: 1.0", r"step returned 1 values: return \(loss, gradients\)"),
            ("step = lambda v, b: (1.0, {'v': 1})", "a gradient of 'v', but the model has no such entry"),
            ("step = lambda v, b: (1.0, {'w': numpy.ones(2)})", r"gradient of w has the shape \[2\], but w has \[3\]"),
            ("step = lambda v, b: (1.0, [1])", "the gradients are a list: return a dict"),
            ("step = lambda v, b: (v['w'], {})", "the loss is no number but a ndarray"),
            ("options['train'] = {'x': x, 'y': 3}", "train is a dict, whose examples have no numbers"),
        ]:
            with self.subTest(change=change):
                self.arrays(change)
                self.assertRegex(self.describe(code=78)[2].splitlines()[-1], "^downpour: .*" + sentence)


if __name__ == "__main__":
    unittest.main()
