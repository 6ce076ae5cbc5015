"""downpour.fit for PyTorch: a child that computes for a worker trains as a plain loop does."""

import sys
import unittest
import unittest.mock

from package import is_there  # first: it says where the others are

if is_there("torch"):
    import torch

    import forked
    import numpy
    from worker import ChildTest
else:
    ChildTest = unittest.TestCase

# A convolution, batch norm, tied weights, an unused parameter, a frozen one and buffers of three kinds.
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, bias=False)  # which batch norm would take away
        self.norm = torch.nn.BatchNorm2d(4)
        self.hidden = torch.nn.Linear(64, 8)
        self.out = torch.nn.Linear(8, 3)
        self.again = self.out
        self.unused = torch.nn.Parameter(torch.ones(2))
        self.frozen = torch.nn.Parameter(torch.ones(1), requires_grad=False)
        self.scale = torch.nn.Parameter(torch.tensor(1.0))
        self.twin = self.scale
        self.register_buffer("table", torch.full((8,), 0.5), persistent=False)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.again(torch.tanh(self.hidden(x) * self.frozen) * self.table) * self.scale

def build():
    torch.manual_seed(3)
    model = Net()
    x = torch.randn(200, 1, 6, 6)
    return model, x, (x.mean((1, 2, 3)) > 0).long() + (x[:, 0, 0, 0] > 0).long()
"""
TASK = """
import sys, torch, downpour
from net import build
print("of the user's")
model, x, y = build()
optimizers = {
    "part": lambda: torch.optim.SGD(model.out.parameters(), 0.1),
    "sgd": lambda: torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.001),
    "momentum": lambda: torch.optim.SGD(model.parameters(), 0.02, momentum=0.9),
    "adam": lambda: torch.optim.Adam(model.parameters(), 0.01),
}
model.eval()  # as pretrained models are
_, history = downpour.fit(
    model, train=torch.utils.data.TensorDataset(x, y), eval=(x[:50], y[:50]), loss=torch.nn.CrossEntropyLoss(),
    optimizer=optimizers[sys.argv[1]](), epochs=2, batch_size=16,
    metrics={"second": lambda output, target: (output.topk(2).indices[:, 1] == target).float().mean()},
)
print(list(history))
"""
BUFFERS = ["norm.running_mean", "norm.running_var"]


class Reference:
    """A plain loop in this process; and the rules of three optimizers, which the worker's values are trained by."""

    def __init__(self, folder, kind):
        sys.path.insert(0, str(folder))
        sys.modules.pop("net", None)
        self.model, self.x, self.y = __import__("net").build()
        sys.path.pop(0)
        self.kind = kind
        make = {"sgd": (torch.optim.SGD, 0.1, {"weight_decay": 0.001}), "adam": (torch.optim.Adam, 0.01, {})}
        of, rate, options = make.get(kind, (torch.optim.SGD, 0.02, {"momentum": 0.9}))
        self.optimizer = of([p for p in self.model.parameters() if p.requires_grad], rate, **options)
        self.slots = {}

    def step(self, *batches):
        total = sum(len(examples) for examples in batches)
        self.optimizer.zero_grad()
        for examples in batches:
            loss = torch.nn.functional.cross_entropy(self.model(self.x[examples]), self.y[examples])
            (loss * len(examples) / total).backward()
        self.model.unused.grad = torch.zeros(2)  # of which a plain loop has none, so no weight decay either
        self.optimizer.step()
        return float(loss.detach())

    def apply(self, worker, name, trainable):
        value, gradient = worker.parameter(name), worker.gradient(name).copy()
        if not trainable:
            value -= gradient
            return
        slots = self.slots.setdefault(name, [numpy.zeros_like(value), numpy.zeros_like(value), 0])
        if self.kind == "sgd":
            value -= 0.1 * (gradient + 0.001 * value)
        elif self.kind == "momentum":
            slots[0] = 0.9 * slots[0] + gradient
            value -= 0.02 * slots[0]
        else:
            slots[0] = 0.9 * slots[0] + 0.1 * gradient
            slots[1] = 0.999 * slots[1] + 0.001 * gradient**2
            slots[2] += 1
            root = numpy.sqrt(slots[1] / (1 - 0.999 ** slots[2]))
            value -= 0.01 * slots[0] / (1 - 0.9 ** slots[2]) / (root + 1e-8)


@unittest.skipUnless(is_there("torch"), "python3-torch is not there: no model of it is trained")
class FitTest(ChildTest):
    if is_there("torch"):
        start = staticmethod(forked.start)

    def setUp(self):
        super().setUp()
        self.write(NET, "net")
        self.write(TASK)
        torch.set_num_threads(1)

    def compare(self, worker, reference, within):
        state = {name: value.numpy() for name, value in reference.model.state_dict().items()}
        for name in worker.names:
            numpy.testing.assert_allclose(worker.parameter(name), state[name], rtol=0, atol=within, err_msg=name)

    def test_what_is_described(self):
        description, initial, said = self.describe("momentum")
        self.assertIn("of the user's", said)
        names = ["unused", "frozen", "scale", "conv.weight", "norm.weight", "norm.bias"]
        names += ["hidden.weight", "hidden.bias", "out.weight", "out.bias", *BUFFERS]
        self.assertEqual([variable["name"] for variable in description["variables"]], names)
        self.assertEqual(list(initial), names)
        fixed = [variable["name"] for variable in description["variables"] if not variable["trainable"]]
        self.assertEqual(fixed, ["frozen", *BUFFERS])
        shapes = {variable["name"]: variable["shape"] for variable in description["variables"]}
        self.assertEqual((shapes["conv.weight"], shapes["scale"]), ([4, 1, 3, 3], []))
        numbers = [description[name] for name in ("classes", "trainExamples", "evalExamples", "metrics", "version")]
        self.assertEqual(numbers, [3, 200, 50, [{"name": "second", "kind": "mean"}], "0.1.0"])
        settings = description["settings"]
        optimizer = settings.pop("training.optimizer")
        self.assertEqual(settings, {"training.epochs": 2, "training.batchSize": 16})
        self.assertEqual(optimizer, {"name": "momentum", "learningRate": 0.02, "momentum": 0.9, "weightDecay": 0})
        state = Reference(self.folder, "sgd").model.state_dict()
        for name, value in initial.items():
            numpy.testing.assert_array_equal(value, state[name].numpy(), name)

    def test_200_steps_are_those_of_a_plain_loop(self):
        for kind in ("sgd", "momentum", "adam"):
            with self.subTest(kind=kind):
                worker, reference = self.work(kind), Reference(self.folder, kind)
                self.assertEqual(worker.first["ready"]["arithmetic"], f"torch {torch.__version__} on cpu, 1 thread")
                fixed = {v["name"] for v in worker.first["ready"]["variables"] if not v["trainable"]}
                draws = numpy.random.default_rng(7)
                for step in range(200):
                    examples = draws.permutation(200)[:16].tolist()
                    answer = worker.train((examples, step))
                    loss = reference.step(examples)
                    self.assertEqual(answer["trained"]["examples"], 16)
                    self.assertAlmostEqual(answer["trained"]["lossSum"], 16 * loss, delta=1e-3)
                    for name in worker.names:
                        reference.apply(worker, name, name not in fixed)
                self.compare(worker, reference, 1e-5)
                self.assertGreater(abs(worker.parameter("norm.running_mean")).max(), 0.001, "statistics are trained")
                self.assertTrue((worker.gradient("unused") == 0).all())
                code, said = worker.end()
                self.assertEqual(code, 0, said)

    def test_a_step_of_several_batches_is_the_mean_of_all_examples(self):
        worker, reference = self.work("sgd"), Reference(self.folder, "sgd")
        batches = [list(range(0, 16)), list(range(16, 18)), list(range(50, 90))]
        for _ in range(3):
            answer = worker.train(*[(examples, 5) for examples in batches])
            self.assertEqual(answer["trained"]["examples"], 58)
            reference.step(*batches)
            for variable in worker.first["ready"]["variables"]:
                reference.apply(worker, variable["name"], variable["trainable"])
        self.compare(worker, reference, 1e-6)

    def test_an_evaluation(self):
        worker, reference = self.work("sgd"), Reference(self.folder, "sgd")
        worker.train((range(16), 1))
        worker.parameter("norm.running_mean")[...] = 0.25  # another worker's
        with torch.no_grad():
            reference.model.eval().norm.running_mean.fill_(0.25)
            output = reference.model(reference.x[:30])
        answer = worker.ask({"evaluate": {"batches": [list(range(20)), list(range(20, 30))]}})["evaluated"]
        loss = torch.nn.functional.cross_entropy(output, reference.y[:30], reduction="sum")
        self.assertAlmostEqual(answer["lossSum"], float(loss), delta=1e-4)
        correct = int((output.argmax(1) == reference.y[:30]).sum())
        self.assertEqual((answer["correct"], answer["examples"]), (correct, 30))
        second = (output.topk(2).indices[:, 1] == reference.y[:30]).sum()
        self.assertAlmostEqual(answer["metricSums"][0], float(second), delta=1e-5)
        before = worker.gradient("norm.running_mean").copy()
        worker.train((range(16), 1))
        self.assertFalse((worker.gradient("norm.running_mean") == before).all(), "it trains in train mode again")

    def test_metrics_of_a_number_per_example_and_an_accuracy_of_the_users_own(self):
        task = self.folder / "task.py"
        given = """metrics={
    "accuracy": lambda output, target: (output[:, :2].argmax(1) == target).float().mean(),
    "each": lambda output, target: (output - target[:, None].to(output)).abs().amax(1),
    "column": lambda output, target: (output[:, :1] > 0).numpy(),
})
"""
        task.write_text(TASK.partition("metrics={")[0] + given)
        description, _, _ = self.describe("sgd")
        self.assertEqual((description["classes"], description["metrics"]), (0, [
            {"name": name, "kind": "mean"} for name in ("accuracy", "each", "column")]))
        worker, reference = self.work("sgd"), Reference(self.folder, "sgd")
        with torch.no_grad():
            output, target = reference.model.eval()(reference.x[:30]), reference.y[:30]
        answer = worker.ask({"evaluate": {"batches": [list(range(20)), [20], list(range(21, 30))]}})["evaluated"]
        wanted = [(output[:, :2].argmax(1) == target).sum(), (output - target[:, None]).abs().amax(1).sum()]
        for value, sum_ in zip([*wanted, (output[:, :1] > 0).sum()], answer["metricSums"]):
            self.assertAlmostEqual(sum_, float(value), delta=1e-5)
        self.assertEqual(answer["correct"], 0)

    def test_statistics_of_batches_begin_with_what_other_workers_made_of_them(self):
        worker = self.work("sgd")
        worker.train((range(16), 1))
        first = worker.gradient("norm.running_mean").copy()
        worker.parameter("norm.running_mean")[...] = 0.25
        worker.train((range(16), 1))
        numpy.testing.assert_allclose(worker.gradient("norm.running_mean"), first + 0.025, atol=1e-6)

    def test_parameters_are_not_copied(self):
        self.write(TASK.replace("model, x, y = build()", """
model, x, y = build()
def seen(module, inputs):
    if module.training:
        print("first weight", float(module.weight[0, 0]))
model.hidden.register_forward_pre_hook(seen)
"""))
        worker = self.work("sgd")
        worker.parameter("hidden.weight")[0, 0] = 42
        worker.train((range(4), 1))
        worker.train((range(4), 1))
        self.assertEqual(worker.end()[1].count("first weight 42.0"), 2)

    def test_what_the_optimizer_was_not_given_is_frozen(self):
        description, initial, _ = self.describe("part")
        trained = [variable["name"] for variable in description["variables"] if variable["trainable"]]
        self.assertEqual(trained, ["out.weight", "out.bias"])
        worker = self.work("part")
        worker.train((range(16), 1))
        for name in worker.names:
            moved = bool(worker.gradient(name).any())
            self.assertEqual(moved, name in trained + BUFFERS, name)

    def test_a_sparse_gradient_is_made_dense(self):
        self.write("""
import sys, torch, downpour
torch.manual_seed(1)
words = torch.randint(0, 50, (40, 3))
embedding = torch.nn.Embedding(50, 4, sparse=sys.argv[1] == "sparse")
model = torch.nn.Sequential(embedding, torch.nn.Flatten(), torch.nn.Linear(12, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
downpour.fit(model, train=(words, words[:, 0] % 2), loss=torch.nn.CrossEntropyLoss(), optimizer=optimizer)
""")
        gradients = []
        for kind in ("sparse", "dense"):
            worker = self.work(kind)
            worker.train((range(8), 1))
            gradients.append(worker.gradient("0.weight").copy())
            self.assertEqual(worker.end()[0], 0)
        numpy.testing.assert_array_equal(*gradients)
        self.assertEqual(sorted(set(gradients[0].any(axis=1))), [False, True], "rows that no example of the batch has")

    def test_the_probe_leaves_no_trace_in_statistics(self):
        for table, last in [("max_norm=0.1, freeze=True", "0"), ("freeze=False", "numpy.nan")]:
            with self.subTest(table=table):
                self.write(f"""
import numpy, torch, downpour
torch.manual_seed(1)
words = torch.randint(0, 50, (40, 3))
embedding = torch.nn.Embedding.from_pretrained(torch.randn(50, 4), {table})
model = torch.nn.Sequential(embedding, torch.nn.Flatten(), torch.nn.BatchNorm1d(12), torch.nn.Linear(12, 2))
model[3].bias.data[0] = {last}
downpour.fit(model, train=(words, words[:, 0] % 2), loss=torch.nn.CrossEntropyLoss())
""")
                initial = self.describe()[1]
                self.assertFalse(initial["2.running_mean"].any())
                self.assertTrue((initial["2.running_var"] == 1).all())

    def test_a_gradient_that_is_not_finite_is_handed_on(self):
        worker = self.work("sgd")
        worker.parameter("out.bias")[0] = numpy.nan
        self.assertEqual(worker.train((range(4), 1))["trained"], {"lossSum": "nan", "examples": 4})
        self.assertTrue(numpy.isnan(worker.gradient("out.weight")).any())
        self.assertEqual(worker.ask({"evaluate": {"batches": [[0, 1]]}})["evaluated"]["lossSum"], "nan")

    def test_it_trains_by_itself(self):
        said = self.alone("adam")
        self.assertRegex(said, "of the user's\nepoch 1, loss .*, evalLoss .*, evalAccuracy .*, second .*\nepoch 2, ")
        first, last = eval(said.splitlines()[-1])
        self.assertLess(last["loss"], first["loss"])
        self.assertEqual(list(last), ["epoch", "loss", "evalLoss", "evalAccuracy", "second"])
        self.assertEqual(said, self.alone("adam"), "by the same draws each time")

    def test_trained_values_go_into_a_module(self):
        from downpour.torch_layers import is_own, load_own, to_torch
        from downpour.torch_model import TorchModel

        source, target = (Reference(self.folder, "sgd").model for _ in range(2))
        for number in range(3):
            source(torch.randn(4, 1, 6, 6))
        with torch.no_grad():
            source.out.weight.add_(1)
        values = TorchModel(source).values()
        self.assertTrue(is_own(values))
        self.assertFalse(is_own({"a/kernel": numpy.ones((2, 3)), "a/bias": numpy.ones(3)}))
        load_own(target, to_torch(values, None), True)
        for name, value in source.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                self.assertTrue(torch.equal(target.state_dict()[name], value), name)
        values.pop("out.weight")
        with self.assertRaisesRegex(RuntimeError, 'Missing key.* "out.weight"'):
            load_own(target, to_torch(values, None), True)
        with self.assertRaisesRegex(ValueError, "leave names out"):
            to_torch(values, {"out": "0"})

    # As on a GPU, where nothing can be a view of the worker's memory.
    def test_a_model_whose_memory_is_its_own(self):
        from downpour.torch_model import TorchModel
        from downpour.variables import Memory

        both = []
        for is_shared in (True, False):
            with unittest.mock.patch.object(TorchModel, "_is_shared", lambda self, parameter: is_shared):
                reference = Reference(self.folder, "sgd")
                model = TorchModel(reference.model)
                memory = Memory(model.variables)
                model.bind(memory)
                for number, place in enumerate(memory.parameters):
                    place[...] = 0.01 * (number + 1)
                memory.all_gradients[:] = 7
                model.load()
                model.clear()
                torch.nn.functional.cross_entropy(reference.model(reference.x), reference.y).backward()
                model.collect()
                model.finish()
                self.assertEqual(reference.model.out.bias.data_ptr() == memory.parameters[9].ctypes.data, is_shared)
                both.append(memory)
                memory.parameters[0][...] = 9
                model.load()
                self.assertTrue((reference.model.unused == 9).all())
        for variable, one, other in zip(model.variables, both[0].gradients, both[1].gradients):
            self.assertFalse((one == 7).any())
            numpy.testing.assert_array_equal(one, other, variable.name)


if __name__ == "__main__":
    unittest.main()
