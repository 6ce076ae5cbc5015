"""The child interpreter with user code that is wrong, that ends, or that dies; and with a worker that does."""

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import unittest

from package import is_there  # first: it says where the others are

if is_there("torch"):
    import forked
    from worker import COMMAND, LONG, ChildTest
else:
    ChildTest = unittest.TestCase

# What a test changes: each name is looked up here, or is what the test gives.
TASK = """
import os, sys, torch, downpour
nn = torch.nn
model = nn.Linear(4, 3)
train = (torch.randn(20, 4), torch.arange(20) % 3)
options = dict(train=train, loss=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(model.parameters(), 0.1))
{change}
downpour.fit(model, **options)
"""
CLASSES = """
class Sized:
    def __init__(self, items): self.items = items
    def __getitem__(self, index): return self.items[index]
class It(Sized): pass
class Lengthed(Sized):
    def __len__(self): return len(self.items)
class Streamed(torch.utils.data.IterableDataset):
    def __iter__(self): return iter([])
class Measured(Streamed):
    def __len__(self): return 3
class Itemless(torch.utils.data.Dataset):
    def __len__(self): return 3
class Whole(nn.Module):
    def __init__(self, *parameters):
        super().__init__()
        self.values = nn.ParameterList(parameters)
    def forward(self, x): return x @ self.values[0]
"""
OWN = "options['optimizer'] = None; "  # as another model has other parameters
REFUSALS = [
    (OWN + "model = nn.ReLU()", "the model has no parameter to train: give it layers"),
    ("model.requires_grad_(False)", "the model has no parameter to train"),
    ("model = 7", "the model is an int: give a torch.nn.Module, or a dict"),
    ("model.double()", r"weight is of torch.float64, but .*: call model.float\(\)"),
    ("model.register_buffer('mean', torch.zeros(2).double())", "mean is of torch.float64"),
    (OWN + "model = Whole(nn.Parameter(torch.ones(4, dtype=torch.int32), requires_grad=False))",
     "0 is of torch.int32"),
    (OWN + "model = nn.LazyLinear(3)", "weight has no shape yet: run one batch through the model"),
    ("p = torch.ones(4, 3); model = Whole(nn.Parameter(p), nn.Parameter(p)); options['optimizer'] = None",
     r"values.0 and values.1 are two parameters in one place of memory: tie weights by assigning"),
    ("model = nn.Linear(4, 3)", "optimizer has 2 parameters that the model has not"),
    (OWN + "model = Whole(nn.Parameter(torch.ones(4, 0)))", r"values.0 has the shape \[4, 0\]"),
    (OWN + "model = Whole(nn.Parameter(torch.ones([1] * 17)))", "values.0 has the shape .* at most 16 sizes"),
    (OWN + "model = nn.Sequential(nn.Embedding(9, 3, max_norm=1.0), nn.Linear(3, 3))",
     "0.weight is changed in forward by max_norm, but the servers alone .*: leave max_norm out, or scale what the la"),
    (OWN + "model = nn.EmbeddingBag(9, 3, max_norm=1.0)", "weight is changed in forward by max_norm"),
    ("options['train'] = Sized(['a'])", "train is a Sized without a length: give it __len__"),
    ("options['train'] = It(['a'])", "train is an It without a length: give it __len__"),
    ("options['train'] = Lengthed([])", "train has no example"),
    ("options['train'] = Streamed()", r"train is a Streamed, a stream, but a job .* by their numbers: give list\(DAT"),
    ("options['train'] = Measured()", r"train is a Measured, a stream, but a job .* by their numbers: give list\(DAT"),
    ("options['train'] = Itemless()", r"train is an Itemless without a __getitem__ .*: give it def __getitem__\(self"),
    ("options['train'] = (pair for pair in zip(*train))", r"train is a generator, which can be .*: give list\(IT\)"),
    ("options['train'] = torch.utils.data.DataLoader(Lengthed([1]))",
     "train is a DataLoader, of whole batches, .*: give its dataset, and batch_size="),
    ("options['eval'] = 'file'", "eval is a str, whose examples have no numbers"),
    ("options['train'] = (train[0], train[1][:9])", r"the arrays of the data have \[9, 20\] rows"),
    ("options['train'] = [(torch.ones(4), 1), (torch.ones(5), 1)]",
     r"2 examples cannot be stacked to a batch \(stack expects .*\): give collate=function\(items\)"),
    ("options['train'] = [{'x': torch.ones(4)}] * 3", r"a batch is a dict, not \(input, target\): give step="),
    ("options['loss'] = nn.CrossEntropyLoss(reduction='none')", r"the loss is no number but a tensor of shape \[20\]"),
    ("options['loss'] = nn.CrossEntropyLoss(reduction='sum')", "loss sums over the batch, .*reduction='mean'"),
    ("options['loss'] = lambda o, t: 3.0", "the loss is no number but a float"),
    ("options['loss'] = lambda o, t: o.detach().mean()",
     "the loss has no gradient: compute it from the model's output"),
    ("options['loss'] = lambda o, t: torch.ones(1, requires_grad=True)", "no parameter of the model has a gradient"),
    ("options['loss'] = nn.PReLU()", "loss has parameters of its own, .*make it a part of the model"),
    ("options['loss'] = None", "give either loss=function.*, or step="),
    ("options['loss'] = 'mse'", r"loss is 'mse', but must be a function of \(output, target\), such as torch.nn.func"),
    ("options.update(loss=None, step=3)", r"step is 3, but must be a function of \(model, batch\)"),
    ("options['collate'] = 'pad'", "collate is 'pad', but must be a function of items"),
    ("options['metrics'] = [len]", r"metrics is a list: give a dict of functions of \(output, target\) by name, as"),
    ("options['metrics'] = {'m': 'auc'}", "the metric m is 'auc', but must be a function of"),
    ("options['train'] = (train[0].double(), train[1])",
     r"train has data of float64, but the model is of float32 \(.*\): give them as float32, such as array.astype"),
    ("options['eval'] = (train[0].double().numpy(), train[1])", "eval has data of float64, but the model is of"),
    ("options.update(train=(train[0], train[0][:, :1].half()), loss=nn.MSELoss())",
     r"train has data of float16, but the model is of float32 \(.*\): give them as float32, such as array.astype"),
    ("options['train'] = (train[0], train[1].int())", r"train has labels that are not of int64 \(.*: give labels.asty"),
    ("options['train'] = (train[0].to_sparse(), train[1])",
     r"train has a sparse tensor, whose rows cannot be picked: give tensor.to_dense\(\), or a scipy.sparse.csr_matrix"),
    ("options['train'] = (train[0], train[1].numpy().astype(str))",
     "train has a ndarray of <U21, of which there are no tensors: give numbers, such as by"),
    ("options['train'] = (train[0], [1, 2, 3])", r"the arrays of the data have \[3, 20\] rows"),
    ("options.update(loss=None, step=lambda m, b: (m(b[0]).mean(), 1))", r"step returned 2 values: return loss, or"),
    ("options.update(loss=None, step=lambda m, b: m(b[0]).mean(), eval=train, metrics={'m': len})",
     r"metrics are functions of \(output, target\): let step return"),
    ("options.update(eval=train, metrics={'m': lambda o, t: o})",
     r"the metric m is no number but a Tensor of shape \[20, 3\]: return"),
    ("options.update(metrics={'a b': len})", "a metric cannot have the name 'a b'"),
    *((f"options.update(metrics={{'{name}': len}})", f"a metric cannot have the name '{name}'")
      for name in ("loss", "epoch", "evalLoss", "evalAccuracy")),
    ("options.update(eval=train, metrics={'accuracy': lambda o, t: 97.3})",
     "the metric accuracy is 97.3, but an accuracy is a share: return 0 to 1, or give it another name"),
    ("options['callbacks'] = []", "fit takes no callbacks=: leave them out: training.stopEarly, checkpoint.best and"),
    ("options['class_weight'] = {}", r"fit takes no class_weight=: give them to the loss, .*Loss\(weight=...\)"),
    ("options['sample_weight'] = []", r"fit takes no sample_weight=: give the weights as a part of train, and step="),
    ("options['validation_split'] = 0.2", "fit takes no validation_split=: cut the data, and give the last part as"),
    ("options['verbose'] = 0", "fit takes no verbose=: leave it out: where it trains by itself"),
    ("options['shuffle'] = True", "fit takes no shuffle=: leave it out: a job draws the order"),
    ("options['batchsize'] = 8", "fit takes no batchsize=: did you mean batch_size="),
    ("options['frobnicate'] = 8", "fit takes no frobnicate=: it takes model, train, eval, loss,"),
    ("downpour.steps(train, scheduler=3)", "steps takes no scheduler=: give the optimizer as a dict with a schedule"),
    ("options['epochs'] = 0", "epochs is 0, but must be a whole number of 1 to 1000000"),
    ("options['epochs'] = torch.tensor(2.9)", "epochs is tensor.2.9000., but must be a whole number"),
    ("options['batch_size'] = 2.0", "batch_size is 2.0, but must be"),
    ("downpour.push(model, loss=1)", "push belongs into a loop over downpour.steps"),
]


@unittest.skipUnless(is_there("torch"), "python3-torch is not there: no child is started with it")
class RefusalTest(ChildTest):
    def test_a_program_that_does_not_come_to_fit_says_where_it_is(self):
        self.write("import threading\nthreading.Event().wait()\n")
        start = ("from downpour import child, modes; modes.Describe.patience = 0.2; child.main(['describe', '--out', "
                 f"{str(self.folder)!r}, '--package', {str(self.folder)!r}, '--module', 'task'])")  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-c", start], env=self.environment, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        line = next(line for line in process.stderr if "has not called" in line)
        self.assertRegex(line, r"has not called downpour.fit for \d+ s, at task.py:2, in <module>: threading.Event")

    def task(self, change):
        self.write(TASK.replace("{change}", CLASSES + change))

    def test_whether_a_batch_of_one_example_can_be_trained_on(self):
        flat = "nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))"
        wide = "nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten())"
        for made, takes_one in ((flat, False), (wide, True), ("nn.Linear(4, 4)", True)):
            with self.subTest(made=made):
                self.task(f"model = {made}; options['optimizer'] = None")
                description, _, _ = self.describe()
                self.assertEqual(description["takesOneExample"], takes_one)

    def test_to_try_that_changes_nothing_of_a_model_that_begins_by_its_data(self):
        self.task("""
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.norm = nn.Parameter(torch.ones(4)), nn.BatchNorm2d(1)
        self.register_buffer("begun", torch.zeros(1))
    def forward(self, x):
        if not self.begun:
            self.scale.data.copy_(x.std(0))
            self.begun.fill_(1)
        return self.norm((x * self.scale).view(-1, 1, 2, 2)).flatten(1)
model = Scaled()
options.update(optimizer=None, batch_size=20, train=(torch.arange(80.0).view(20, 4), train[1]))
""")
        _, initial, _ = self.describe()
        self.assertEqual(float(initial["begun"][0]), 1)
        once = 0.1 * 39.5 * statistics.stdev(range(0, 80, 4))
        self.assertAlmostEqual(float(initial["norm.running_mean"][0]), once, delta=0.01)

    def test_what_a_batch_norm_refuses_has_a_remedy(self):
        self.task(OWN + "model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)); options['batch_size'] = 1")
        self.assertRegex(self.describe(code=1)[2], "downpour: ValueError: .*; batch norm needs 2 or more in a batch")

    def test_each_is_one_sentence_with_the_remedy(self):
        script = TASK.replace("downpour.fit(model, **options)", "") + CLASSES
        loop = """
import downpour.modes as modes
fit, push = downpour.fit, downpour.push
for number, change in enumerate(__import__("json").load(open(sys.argv[1]))):
    scope = dict(globals())
    try:
        exec(%r + change + "\\ndownpour.fit(model, **options)", scope)
    except downpour.TrainingError as error:
        print(number, " ".join(str(error).split()))
"""
        (self.folder / "changes").write_text(json.dumps([change for change, _ in REFUSALS]))
        script = script.replace("{change}", "")
        self.write(script + loop % script)
        said = self.alone(str(self.folder / "changes"))
        for number, (change, sentence) in enumerate(REFUSALS):
            with self.subTest(change=change):
                self.assertRegex(said, f"(?m)^{number} .*{sentence}")

    def test_a_log_that_takes_no_more_ends_no_program(self):
        self.task("for _ in range(9): print('x' * 9999); print('y', file=sys.stderr)")
        log, most = self.folder / "log", 1 << 20
        log.write_bytes(bytes(most))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        (self.folder / "out").mkdir()
        words = ["describe", "--out", str(self.folder / "out"), *self.words()]
        with log.open("ab") as end:
            done = subprocess.run(COMMAND + words, env=self.environment, stdout=end, stderr=end, timeout=LONG,
                                  preexec_fn=limit)  # fmt: skip
        self.assertEqual(done.returncode, 0)
        self.assertTrue((self.folder / "out/description.json").exists())
        self.assertEqual(log.stat().st_size, most)

    def test_the_tool_is_told_in_the_last_line(self):
        self.task("options['epochs'] = -1")
        said = self.describe(code=78)[2]
        self.assertRegex(said.splitlines()[-1], "^downpour: epochs is -1, but must be .*")
        self.assertFalse((self.folder / "out/description.json").exists())

    def test_modules_that_do_not_come_to_fit(self):
        (self.folder / "broken").mkdir()
        (self.folder / "broken/__init__.py").write_text("import nowhere")
        for code, module, status, sentence in [
            ("", "task", 78, "downpour: the module task never called downpour.fit"),
            ("", "tusk", 78, "downpour: there is no module tusk in .*: give the package that has it"),
            ("", "task.deeper", 78, "downpour: there is no module task.deeper in"),
            ("", "broken.task", 78, "downpour: there is no module nowhere for .*: install it there, name it "
             "in requirements.txt, or name another Python"),
            ("import nowhere", "task", 78, "downpour: there is no module nowhere for .*: install it there"),
            ("from torchh import nn", "task", 78, "downpour: there is no module torchh"),
            ("x = (", "task", 78, "downpour: SyntaxError: '\\(' was never closed"),
            ("raise ValueError('of the user')", "task", 1,
             r"^downpour: ValueError: of the user, at task.py:1, in <module>: raise ValueError"),
            ("import sys; sys.exit()", "task", 78, "downpour: the module task never called downpour.fit"),
            ("import sys; sys.exit(3)", "task", 3, "$"),
            ("import os; print('last', flush=True); os._exit(4)", "task", 4, "last"),
            ("raise KeyboardInterrupt", "task", 1, "downpour: KeyboardInterrupt"),
        ]:
            with self.subTest(code=code, module=module):
                self.write(code)
                said = self.describe(module=module, code=status)[2]
                self.assertRegex(said.splitlines()[-1] if said else "", sentence)
                if status == 1:
                    self.assertIn("Traceback (most recent call last)", said)

    def test_a_module_of_the_package_that_goes_by_another_name(self):
        """As Python 2 found it, beside the file that imports it; and a package that was given without its folder."""
        files = {"trainer/__init__.py": "", "trainer/task.py": "import trainer.nets.small",
                 "trainer/model.py": "from trainer.nets import small", "trainer/colorsys.py": "", "layers.py": "",
                 "trainer/nets/__init__.py": "", "trainer/nets/small.py": "", "trainer/nets/big.py": "import small"}
        whole = "{0} of the package goes by its whole name in Python 3: write `from {1} import"
        flat = "name it with its package, as --module-name trainer.task with --package-path of the folder trainer"
        for code, module, sentence in [
            ("import model", "trainer.task", "no module model, while " + whole.format("trainer/model", "trainer") +
             r" model`, or `from trainer.model import"),
            ("from model import Net", "trainer.task", "write `from trainer import model`"),
            ("import nets.big", "trainer.task", "no module nets, while " + whole.format("trainer/nets", "trainer")),
            ("import trainer.nets.big", "trainer.task", "no module small, while " +
             whole.format("trainer/nets/small", "trainer.nets")),
            ("from colorsys import Red", "trainer.task", "colorsys is that of .*, while trainer/colorsys of the pack"),
            ("from model import Net", "trainer.deep.task", "there is no module trainer.deep.task"),
            ("from trainer.model import Net", "trainer.task", "ImportError: cannot import name 'Net' from 'trainer.mo"),
            ("import models", "trainer.task", "there is no module models for .*: install it there"),
            ("from . import layers", "task", "no package, so it has no relative imports: " + flat),
            ("from trainers.layers import Net", "task", "no package trainers, since task was .* of none: " + flat),
            ("from trainers import layers", "task", "no package trainers, since task was .* of none: " + flat),
        ]:
            for name, text in {**files, f"{module.replace('.', '/')}.py": code}.items():
                if "deep" not in name:
                    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (self.folder / name).write_text(text)
            with self.subTest(code=code, module=module):
                said = self.describe(module=module, code=1 if "ImportError" in sentence else 78)[2]
                self.assertRegex(said.splitlines()[-1], sentence)

    def test_threads(self):
        self.environment["DOWNPOUR_THREADS"] = "two"
        self.task("")
        self.assertIn("downpour: DOWNPOUR_THREADS is 'two', but must be a whole number", self.describe(code=78)[2])
        self.environment.pop("DOWNPOUR_THREADS")
        self.task("print('threads', os.environ['OMP_NUM_THREADS'])")
        self.assertIn("threads 1\n", self.describe()[2])
        for name in ("DOWNPOUR_THREADS", "OMP_NUM_THREADS"):
            self.environment.pop("DOWNPOUR_THREADS", None)
            self.environment[name] = "2"
            self.assertIn(", 2 threads", self.work().first["ready"]["arithmetic"])

    def test_arguments_that_name_the_results_are_those_of_this_host(self):
        self.task("print('args', sys.argv[1:])")
        for store in ("gs://b/run", "gs://b/lr=0.1/run"):
            self.environment.update(DOWNPOUR_RESULTS=store, DOWNPOUR_RESULTS_HERE="/here")
            words = ["--job-dir", store, f"--job-dir={store}", f"{store}/lr=0.1/x", f"--out={store}/lr=0.2/x"]
            others = [f"{store}s", f"--data={store}-1", f"--note=see=me {store}"]
            wanted = ["--job-dir", "/here", "--job-dir=/here", "/here/lr=0.1/x", "--out=/here/lr=0.2/x", *others]
            with self.subTest(store=store):
                self.assertIn(f"args {wanted}\n", self.describe(*words, *others)[2])

    def test_a_zip_file_and_arguments(self):
        import zipfile

        self.task("print('args', sys.argv[1:], os.path.basename(sys.argv[0]))")
        with zipfile.ZipFile(self.folder / "package.zip", "w") as archive:
            archive.writestr("trainer/__init__.py", "")
            archive.write(self.folder / "task.py", "trainer/task.py")
        (self.folder / "task.py").unlink()
        folder, self.folder = self.folder, self.folder / "package.zip"
        words = self.words("--out", "--", "x", module="trainer.task")
        self.folder, self.words = folder, lambda *arguments, module: words
        self.assertIn("args ['--out', '--', 'x'] task.py", self.describe()[2])


@unittest.skipUnless(is_there("torch"), "python3-torch is not there: no child is started with it")
class DeathTest(ChildTest):
    if is_there("torch"):
        start = staticmethod(forked.start)

    def work_with(self, change, **options):
        """A worker of a module that is described as usual and then does this."""
        self.write(TASK.replace("{change}", "if sys.argv[1:]:\n" + "\n".join(f"    {l}" for l in change.splitlines())))
        description, initial, _ = self.describe()
        return self.worker(description, initial, self.words("work"), **options)

    RAISING = """
def fails(output, target):
    if len(target) == 3:
        {what}
    return nn.functional.cross_entropy(output, target)
options["loss"] = fails
"""

    def test_the_users_code_raises_in_a_step(self):
        worker = self.work_with(self.RAISING.replace("{what}", "raise ValueError('of three')"))
        self.assertEqual(worker.train((range(4), 1))["trained"]["examples"], 4)
        error = worker.train((range(3), 1))["error"]
        self.assertEqual((error["message"], error["refused"]), ("ValueError: of three", False))
        self.assertFalse(error["ended"])
        self.assertRegex(error["where"], r"^task.py:\d+, in fails: raise ValueError.*; called from task.py:\d+, in <m")
        self.assertIsNone(worker.hear())
        code, said = worker.end()
        self.assertEqual(code, 1)
        self.assertIn("in fails\n", said)

    def test_an_evaluation_lacks_its_data(self):
        worker = self.work_with("options['metrics'] = {}")
        error = worker.ask({"evaluate": {"batches": [[0]]}})["error"]
        self.assertEqual(error["refused"], False, "only what cannot begin is refused")
        self.assertIn("there are no data for it: give eval=", error["message"])
        self.assertIsNone(worker.hear())  # else the worker's death might end it first
        self.assertEqual(worker.end()[0], 1)

    def test_the_users_code_ends_the_process(self):
        for what, status in [("os._exit(5)", 5), ("os.kill(os.getpid(), 9)", -9)]:
            with self.subTest(what=what):
                worker = self.work_with(self.RAISING.replace("{what}", what))
                self.assertIsNone(worker.train((range(3), 1)))
                self.assertEqual(worker.end()[0], status)
        for code, told, status in [("6", "6", 6), ("'the disk is full'", "the disk is full", 1)]:
            worker = self.work_with(self.RAISING.replace("{what}", f"sys.exit({code})"))
            error = worker.train((range(3), 1))["error"]
            self.assertEqual((error["message"], error["ended"]), (f"SystemExit: {told}", False))
            self.assertRegex(error["where"], r"^task.py:\d+, in fails: sys.exit")
            self.assertIsNone(worker.hear())  # else the worker's death might end it first
            self.assertEqual(worker.end()[0], status)
        worker = self.work_with(self.RAISING.replace("{what}", "sys.exit(0)"))
        error = worker.train((range(3), 1))["error"]
        self.assertIn("the module task ended before its job did", error["message"])
        self.assertTrue(error["ended"])

    def test_the_users_code_catches_what_it_raised(self):
        change = self.RAISING.replace("{what}", "raise ValueError") + "try: downpour.fit(model, **options)\nexcept"
        self.write(TASK.replace("{change}", change + " ValueError: sys.exit(0)"))
        description, initial, _ = self.describe()
        worker = self.work()
        error = worker.train((range(3), 1))["error"]
        self.assertIn("ended before its job did", error["message"])
        self.assertFalse(error["refused"], "it has begun")

    def test_another_model_than_the_described_one(self):
        for change in ("model = nn.Linear(4, 3000)", "model = nn.Linear(4, 5000)"):
            worker = self.work_with(change + "; options['optimizer'] = None")
            error = worker.first["error"]
            self.assertTrue(error["refused"])
            self.assertRegex(error["message"], "the job's memory has 12288 bytes, but the model needs .* same model on")
        self.assertIn("has 0 bytes", self.work_with("pass", memory_bytes=0).first["error"]["message"])

    def test_messages_that_are_none(self):
        for data, sentence in [
            (b"{}", "the worker asks for nothing"),
            (b'{"fly": 1}', "the worker asks for fly: install"),
            (b"[", "JSONDecodeError"),
            (b'{"train": {"batches": [{"examples": [99], "seed": 1}]}}', "IndexError"),
        ]:
            with self.subTest(data=data):
                worker = self.work_with("pass")
                worker.say(data)
                self.assertIn(sentence, worker.hear()["error"]["message"])
        worker = self.work_with("pass")
        worker.channel.sendall(b"\xff\xff\xff\xff")
        self.assertIn("a message of 4294967295 bytes", worker.hear()["error"]["message"])

    def test_code_that_hangs_is_named(self):
        hanging = self.RAISING.replace("{what}", "downpour.modes.current.patience = 0.1; threading.Event().wait()")
        worker = self.work_with("import threading, downpour.modes\n" + hanging)
        self.assertEqual(worker.train((range(4), 1))["trained"]["examples"], 4)
        for said in worker.train((range(3), 1)), worker.hear():
            self.assertRegex(said["warning"], r"in one call for \d+ s, at task.py:\d+, in fails: .*threading.Event")
        self.assertIn("in outcome_of\n", worker.end()[1], "the whole way to it is in the log")

    def test_an_interrupt_is_the_workers(self):
        worker = self.work_with("pass")
        worker.process.send_signal(signal.SIGINT)
        self.assertEqual(worker.train((range(4), 1))["trained"]["examples"], 4)

    def test_the_worker_dies(self):
        worker = self.work_with("pass")
        self.assertEqual(worker.end()[0], 0)
        worker = self.work_with(self.RAISING.replace("{what}", "while True: pass"))
        worker.say(json.dumps({"train": {"batches": [{"examples": [1, 2, 3], "seed": 1}]}}).encode())
        self.assertEqual(worker.end()[0], 0, "in the midst of a step that never ends")

    def test_processes_of_the_user_keep_nothing_open(self):
        worker = self.work_with("import subprocess\nprint(subprocess.run(['ls', '-l', '/proc/self/fd'], "
                                "capture_output=True, text=True, close_fds=False).stdout)")
        code, said = worker.end()
        self.assertIn("/dev/null", said)
        self.assertNotIn("memfd", said)

    def test_a_forked_process_of_the_user_keeps_nothing_open(self):
        worker = self.work_with("if os.fork() == 0:\n"
                                "    for fd in os.listdir('/proc/self/fd'):\n"
                                "        try: print('open', os.readlink('/proc/self/fd/' + fd))\n"
                                "        except OSError: pass\n"
                                "    os._exit(0)\n"
                                "os.wait()")  # fmt: skip
        self.assertEqual(worker.train((range(4), 1))["trained"]["examples"], 4)
        said = worker.end()[1]
        self.assertIn("open /dev/null", said)
        self.assertNotRegex(said, "open .*(memfd|socket)")


if __name__ == "__main__":
    unittest.main()
