"""downpour.Embedding and EmbeddingBag: rows as torch's layers would train them, here and for a worker."""

import mmap
import os
import unittest
import unittest.mock

from package import is_there  # first: it says where the others are

if is_there("torch"):
    import torch

    import downpour
    import forked
    import numpy
    from downpour import local_tables
    from downpour.local import Local
    from downpour.tables import checked
    from worker import ChildTest
else:
    ChildTest = unittest.TestCase

IDS = 40
# Two layers share the table users. Its ids are far apart, and some are below 0.
NET = """
import torch, downpour

class Net(torch.nn.Module):
    def __init__(self, rule, **settings):
        super().__init__()
        self.user = downpour.Embedding(4, name="users", optimizer=rule, **settings)
        self.friends = downpour.EmbeddingBag(4, name="users", mode="sum", optimizer=rule, **settings)
        self.item = downpour.Embedding(3, optimizer=rule, padding_idx=0)
        self.out = torch.nn.Linear(7, 1)

    def forward(self, user, friends, item):
        both = self.user(user) + self.friends(friends)
        return self.out(torch.cat([both, self.item(item)], 1))[:, 0]

def draw(count=300):
    generator = torch.Generator().manual_seed(3)
    ids = lambda *shape: torch.randint(40, shape, generator=generator)
    spread = lambda places: (places - 20) * 10**17
    return spread(ids(count)), spread(ids(count, 3)), ids(count), torch.randn(count, generator=generator)

def keys(batch):
    user, friends, item, _ = batch
    return {"users": [user, friends], "item": item}
"""
TASK = """
import sys, torch, downpour
from net import Net, draw, keys
torch.manual_seed(2)
rule = {"name": "sgd", "learningRate": 1.0}
hinted = {"keys": keys} if "hint" in sys.argv else {}
if "wrong" in sys.argv:
    hinted = {"keys": lambda batch: {**keys(batch), "item": batch[2] + 1}}
if "few" in sys.argv:
    hinted = {"keys": lambda batch: {"users": batch[0]}}
if "strange" in sys.argv:
    hinted = {"keys": lambda batch: {"people": batch[0]}}
loss = torch.nn.functional.mse_loss
if "loop" in sys.argv:
    model = Net(rule)
    for batch in downpour.steps(draw(64), batch_size=16):
        found = loss(model(*batch[:3]), batch[3])
        found.backward()
        downpour.push(model, loss=found)
else:
    downpour.fit(Net(rule), train=draw(64), eval=draw(20), loss=loss, batch_size=16, **hinted)
"""


class Torch(torch.nn.Module if is_there("torch") else object):
    """The same with layers of torch, whose rows begin as those of the tables."""

    def __init__(self, net):
        super().__init__()
        self.out = torch.nn.Linear(7, 1)
        self.out.load_state_dict(net.out.state_dict())
        self.users = torch.nn.Embedding(IDS, 4, sparse=True)
        self.items = torch.nn.Embedding(IDS, 3, sparse=True, padding_idx=0)
        with torch.no_grad():
            for number, (layer, reader) in enumerate([(self.users, net.user.reader), (self.items, net.item.reader)]):
                ids = numpy.arange(IDS) if number else (numpy.arange(IDS) - 20) * 10**17
                rows = local_tables.initial_rows(reader.table, number, 1, ids.astype(numpy.int64).view(numpy.uint64))
                layer.weight.copy_(torch.from_numpy(rows))
            self.items.weight[0] = 0

    def forward(self, user, friends, item):
        place = lambda ids: ids // 10**17 + 20  # noqa: E731
        both = self.users(place(user)) + self.users(place(friends)).sum(1)
        return self.out(torch.cat([both, self.items(item)], 1))[:, 0]


@unittest.skipUnless(is_there("torch"), "python3-torch is not there: no model of it is trained")
class LayerTest(unittest.TestCase):
    def setUp(self):
        finished = unittest.mock.patch.object(Local, "finished", False)
        finished.start()
        self.addCleanup(finished.stop)
        self.net = {}
        exec(NET, self.net)

    def trained(self, rule, **how):
        """The batches that were trained on, and the model."""
        torch.manual_seed(2)
        Local.finished = False
        net = self.net["Net"](rule)
        reference = Torch(net)
        batches = []
        with unittest.mock.patch("builtins.print"):
            for batch in downpour.steps(self.net["draw"](), batch_size=16, epochs=2, optimizer=rule, seed=1, **how):
                batches.append(batch)
                loss = torch.nn.functional.mse_loss(net(*batch[:3]), batch[3])
                loss.backward()
                downpour.push(net, loss=loss)
        return batches[1:], net, reference  # the first one is a probe

    def compare(self, net, reference):
        ids, values = net.user.rows()
        wanted = reference.users.weight.detach().numpy()
        self.assertGreater(len(ids), IDS // 2)
        numpy.testing.assert_allclose(values, wanted[ids // 10**17 + 20], rtol=0, atol=1e-6)
        ids, values = net.item.rows()
        self.assertNotIn(0, ids)
        numpy.testing.assert_allclose(values, reference.items.weight.detach().numpy()[ids], rtol=0, atol=1e-6)
        numpy.testing.assert_allclose(
            net.out.weight.detach().numpy(), reference.out.weight.detach().numpy(), rtol=0, atol=1e-6
        )

    def test_rows_are_trained_as_sparse_embeddings_are(self):
        makes = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}
        for name, make in makes.items():
            for how in ({}, {"keys": self.net["keys"]}):
                with self.subTest(rule=name, how=list(how)):
                    batches, net, reference = self.trained({"name": name, "learningRate": 0.05}, **how)
                    optimizer = make(reference.parameters(), lr=0.05)
                    for *inputs, target in batches:
                        optimizer.zero_grad()
                        torch.nn.functional.mse_loss(reference(*inputs), target).backward()
                        optimizer.step()
                    self.compare(net, reference)

    def test_a_bag_is_what_torch_has(self):
        ids = torch.tensor([5, 3, 0, 3, 9, 0, 0])
        offsets = torch.tensor([0, 0, 4, 6])
        for mode in ("sum", "mean", "max"):
            for padding in (None, 0):
                bag = downpour.EmbeddingBag(3, mode=mode, padding_idx=padding)
                weight = torch.from_numpy(
                    local_tables.initial_rows(bag.reader.table, 0, 1, numpy.arange(10, dtype=numpy.uint64))
                ).requires_grad_()
                of_torch = lambda *given, **more: torch.nn.functional.embedding_bag(  # noqa: E731
                    given[0], weight, *given[1:], mode=mode, padding_idx=padding, **more
                )
                with self.subTest(mode=mode, padding=padding):
                    torch.testing.assert_close(bag(ids, offsets), of_torch(ids, offsets))
                    rows = ids[:6].reshape(2, 3)
                    torch.testing.assert_close(bag(rows), of_torch(rows))
                    last = downpour.EmbeddingBag(3, mode=mode, padding_idx=padding, include_last_offset=True)
                    ends = torch.tensor([0, 4, 7])
                    torch.testing.assert_close(last(ids, ends), of_torch(ids, ends, include_last_offset=True))
                    if mode == "sum":
                        shares = torch.rand(7)
                        torch.testing.assert_close(
                            bag(ids, offsets, per_sample_weights=shares),
                            of_torch(ids, offsets, per_sample_weights=shares),
                        )

    def test_rows_of_any_shape(self):
        layer = downpour.Embedding(3, padding_idx=-7)
        out = layer(torch.tensor([[[1, -7]], [[-7, 2**62]]]))
        self.assertEqual(list(out.shape), [2, 1, 2, 3])
        self.assertEqual(out.detach().ne(0).any(-1).tolist(), [[[True, False]], [[False, True]]])
        self.assertEqual(list(layer(torch.zeros(0, 2, dtype=torch.long)).shape), [0, 2, 3])
        self.assertEqual(list(layer(torch.tensor([-7])).shape), [1, 3])
        self.assertEqual(list(layer.state_dict()), [])

    def test_what_is_no_id_is_refused_by_name(self):
        layer, bag = downpour.Embedding(3, name="users"), downpour.EmbeddingBag(3, name="words")
        cases = [
            (lambda: layer(torch.zeros(2)), "the ids of table users are of float32, but must be whole numbers"),
            (lambda: layer(torch.zeros(2, dtype=torch.bool)), "are of bool"),
            (lambda: layer([1, 2]), "the ids of table users are a list: give a tensor of whole numbers"),
            (lambda: layer(torch.tensor([-(2**63)])), r"an id of table users is -2\^63, which names no row"),
            (lambda: bag(torch.zeros(2, dtype=torch.long)), r"of table words have the shape \[2\] without offsets"),
            (lambda: bag(torch.zeros(2, 2, dtype=torch.long), torch.tensor([0])), r"\[2, 2\] with offsets"),
            (lambda: bag(torch.zeros(2, 2, 2, dtype=torch.long)), r"\[2, 2, 2\] without offsets"),
            (lambda: downpour.Embedding(1000, 16), r"a table has no number of rows: write downpour.Embedding\(16\)"),
            (lambda: downpour.Embedding(0), "width of a table is 0, but must be a whole number of 1 to 4096"),
            (lambda: downpour.Embedding(3, name="a b"), "a table's name is 'a b'"),
            (lambda: downpour.Embedding(3, optimizer="rmsprop"), "name one of sgd, adagrad, adam, ftrl"),
            (lambda: downpour.Embedding(3, optimizer={"lr": 1}), "adagrad has no lr"),
            (lambda: downpour.Embedding(3, optimizer={"name": "sgd", "rowWise": True}), "rowWise goes with adagrad"),
            (lambda: downpour.Embedding(3, initializer="ones"), "the initializer of a table is 'ones'"),
            (lambda: downpour.Embedding(3, precision="fp16"), "precision of a table is 'fp16'"),
            (lambda: downpour.Embedding(3, admit_after=0), "admit_after of a table is 0"),
            (lambda: downpour.EmbeddingBag(3, mode="min"), "mode of downpour.EmbeddingBag is 'min'"),
            (lambda: layer.set_rows([1], [[1.0]]), r"has rows of 3 numbers, but 1 ids have values of shape \[1, 1\]"),
        ]
        for call, sentence in cases:
            with self.subTest(sentence=sentence), self.assertRaisesRegex(downpour.TrainingError, sentence):
                call()

    def test_two_layers_of_one_name_must_agree(self):
        model = torch.nn.ModuleDict({"a": downpour.Embedding(3, name="t"), "b": downpour.Embedding(4, name="t")})
        with self.assertRaisesRegex(downpour.TrainingError, "two layers share the table t with other settings"):
            downpour.fit(model, train=[1], loss=torch.nn.functional.mse_loss)

    def test_an_embedding_of_torch_that_is_large_or_sparse_is_told_what_to_write(self):
        small = torch.nn.Embedding(8, 2)
        sparse = torch.nn.EmbeddingBag(8, 2, mode="sum", sparse=True)
        large = torch.nn.Embedding(5_000_000, 4, padding_idx=3)
        from downpour.torch_model import TorchModel

        with unittest.mock.patch("sys.stderr") as said:
            TorchModel(torch.nn.ModuleList([small, sparse, large]))
        told = "".join(call.args[0] for call in said.write.call_args_list).splitlines()
        self.assertEqual(len(told), 2, told)
        self.assertIn("1.weight has sparse=True, but here its gradient is made dense: each step moves all", told[0])
        self.assertIn("downpour.EmbeddingBag(2, mode='sum') in its place", told[0])
        self.assertIn("2.weight is large: each step moves all of its 76.3 MiB, both ways", told[1])
        self.assertIn("downpour.Embedding(4, padding_idx=3) in its place", told[1])


@unittest.skipUnless(is_there("torch"), "python3-torch is not there")
class LocalTableTest(unittest.TestCase):
    def table(self, **settings):
        numbers = {"admit_after": 1, "evict_after": 0, "max_rows": 0, "precision": "fp32", **settings}
        rule = numbers.pop("optimizer", {"name": "sgd", "learningRate": 1.0})
        return local_tables.LocalTable(checked("t", 2, rule, numbers.pop("initializer", "zeros"), **numbers))

    def push(self, table, *keys):
        keys = numpy.array(keys, numpy.uint64)
        table.push(keys, -numpy.ones((len(keys), 2), numpy.float32), 100)

    def values(self, table, *keys):
        return table.gather(numpy.array(keys, numpy.uint64))[:, 0].tolist()

    def test_a_row_is_born_by_the_push_that_is_said(self):
        table = self.table(admit_after=2)
        for _ in range(3):
            self.push(table, 5)
        self.assertEqual(self.values(table, 5, 6), [2, 0])
        self.assertEqual(table.items()[0].tolist(), [5])

    def test_a_row_that_no_push_has_expires(self):
        table = self.table(evict_after=2, max_rows=2)
        self.push(table, 1)
        self.push(table, 2)
        self.assertEqual(self.values(table, 1, 2), [1, 1])
        self.push(table)
        self.assertEqual(self.values(table, 1, 2), [0, 1])
        self.push(table, 3, 4)
        self.assertEqual(self.values(table, 2, 3, 4), [0, 1, 0], "one had room, as long as 2 was there")
        self.push(table, 5)
        self.push(table, 6)
        self.assertEqual(self.values(table, 5, 6), [1, 0])

    def test_row_wise_adagrad_has_one_sum_for_a_row(self):
        table = self.table(optimizer={"name": "adagrad", "rowWise": True, "learningRate": 1.0})
        table.push(numpy.array([7], numpy.uint64), numpy.array([[3.0, 1.0]], numpy.float32), 1)
        root = 5**0.5  # of the mean of 9 and 1
        numpy.testing.assert_allclose(table.gather(numpy.array([7], numpy.uint64))[0], [-3 / root, -1 / root], 1e-6)

    def test_values_of_half_precision_are_rounded_to_the_nearest(self):
        table = self.table(precision="bf16")
        table.put(numpy.array([1, 2], numpy.uint64), numpy.array([[1 + 2**-9, 1 + 3 * 2**-9], [3.0, -0.0]], "float32"))
        self.assertEqual(table.gather(numpy.array([1], numpy.uint64)).tolist(), [[1.0, 1 + 2**-7]])

    def test_what_is_not_finite_changes_no_table(self):
        tables = local_tables.LocalTables([self.table(), self.table()])
        one = numpy.array([1], numpy.uint64)
        blocks = [tables.bring([(number, one)], False) for number in range(2)]
        blocks[0][0].gradient[:] = numpy.nan
        blocks[1][0].gradient[:] = 1
        self.assertFalse(tables.push(blocks))
        self.assertEqual(tables.bring([(1, one)], False)[0].values.tolist(), [[0, 0]])


@unittest.skipUnless(is_there("torch"), "python3-torch is not there: no model of it is trained")
class WorkerTest(ChildTest):
    """What a worker asks, by hand: rows of value 1 for all keys."""

    MOST = 4096  # numbers of rows
    WIDTHS = (4, 3)

    if is_there("torch"):
        start = staticmethod(forked.start)

    def setUp(self):
        super().setUp()
        self.write(NET, "net")
        self.write(TASK)
        self.net = {}
        exec(NET, self.net)
        self.batch = [column[:16] for column in self.net["draw"](64)]

    def begin(self, *arguments):
        description, initial, _ = self.describe(*arguments)
        self.assertEqual([(t["name"], t["width"]) for t in description["tables"]], [("users", 4), ("item", 3)])
        self.assertEqual(description["knowsKeys"], bool(arguments) and arguments[0] != "loop")
        file = os.memfd_create("rows")
        os.ftruncate(file, 16 * self.MOST)
        self.addCleanup(os.close, file)
        self.memory = mmap.mmap(file, 16 * self.MOST)
        self.at = 0
        words = ["--rows", str(file), *self.words(*arguments)]
        return self.worker(description, initial, words, keep=(file,))

    def view(self, kind, begin, count):
        return numpy.frombuffer(self.memory, kind, count, begin)

    def bring(self, needs):
        """The keys that were asked for, by table; their rows are 1."""
        keys, place = {}, 0
        for table, count in needs:
            keys[table] = self.view(numpy.uint64, 8 * place, count).view(numpy.int64).tolist()
            self.assertEqual(keys[table], sorted(set(keys[table]), key=lambda key: key % 2**64))
            place += count
            self.view(numpy.float32, 8 * self.MOST + 4 * self.at, count * self.WIDTHS[table])[:] = 1
            self.at += count * self.WIDTHS[table]
        return keys

    def gradients(self, table_counts):
        """Of tables in the order in which they were asked for."""
        at, all_of = 0, []
        for table, count in table_counts:
            width = self.WIDTHS[table]
            flat = self.view(numpy.float32, 12 * self.MOST + 4 * at, count * width)
            all_of.append(flat.reshape(count, width).copy())
            at += count * width
        return all_of

    def wanted(self, worker, users, items):
        """Gradients of rows that are 1, of the batch."""
        user, friends, item, target = self.batch
        weight = torch.from_numpy(worker.parameter("out.weight").copy())
        bias = torch.from_numpy(worker.parameter("out.bias").copy())
        rows = [torch.ones(len(ids), width, requires_grad=True) for ids, width in ((users, 4), (items, 3))]
        place = lambda ids, among: torch.tensor([among.index(i) for i in ids.flatten().tolist()])  # noqa: E731
        both = rows[0][place(user, users)] + rows[0][place(friends, users)].view(16, 3, 4).sum(1)
        shown = torch.zeros(16, 3)
        is_item = item != 0
        shown[is_item] = rows[1][place(item[is_item], items)]
        out = torch.nn.functional.linear(torch.cat([both, shown], 1), weight, bias)[:, 0]
        torch.nn.functional.mse_loss(out, target).backward()
        return [row.grad.numpy() for row in rows]

    def check(self, worker, asked, keys):
        """Those of users, and of items."""
        users = [key for ask in keys for key in ask.get(0, [])]
        items = [key for ask in keys for key in ask.get(1, [])]
        self.assertEqual(set(users), set(self.batch[0].tolist()) | set(self.batch[1].flatten().tolist()))
        self.assertEqual(len(users), len(set(users)), "each row travels once")
        self.assertEqual(set(items), set(self.batch[2].tolist()) - {0})
        found = {0: [], 1: []}
        for (table, _), gradient in zip(asked, self.gradients(asked)):
            found[table].append(gradient)
        for table, wanted in enumerate(self.wanted(worker, users, items)):
            numpy.testing.assert_allclose(numpy.concatenate(found[table]), wanted, rtol=0, atol=1e-6)

    def test_a_layer_waits_for_the_rows_that_it_lacks(self):
        for how in ([], ["loop"]):
            with self.subTest(how=how):
                self.check_waiting(self.begin(*how))

    def check_waiting(self, worker):
        for _ in range(2):  # the second step asks again
            self.at, asked, keys = 0, [], []
            answer = worker.train((range(16), 1))
            while "needs" in answer["trained"]:
                asked += answer["trained"]["needs"]
                keys.append(self.bring(answer["trained"]["needs"]))
                answer = worker.ask({"rows": {}})
            self.assertEqual(answer["trained"]["examples"], 16)
            self.assertEqual(len(keys), 3, "the two layers of users, and that of items")
            self.check(worker, asked, keys)

    def test_with_a_function_of_keys_rows_are_there_before(self):
        worker = self.begin("hint")
        batch = {"examples": list(range(16)), "seed": 1}
        found = worker.ask({"find": {"batches": [batch]}})["found"]["needs"]
        keys = self.bring(found)
        answer = worker.train((range(16), 1))["trained"]
        self.assertEqual(answer["examples"], 16)
        self.check(worker, found, [keys])
        self.at = 0
        found = worker.ask({"find": {"evaluate": [list(range(16))]}})["found"]["needs"]
        self.bring(found)
        self.assertEqual(worker.ask({"evaluate": {"batches": [list(range(16))]}})["evaluated"]["examples"], 16)

    def test_the_batches_of_a_step_share_its_rows(self):
        worker = self.begin()
        answer, asked = worker.train((range(8), 1), (range(8, 16), 2)), []
        while "needs" in answer["trained"]:
            asked.append((answer["trained"]["needs"], self.bring(answer["trained"]["needs"])))
            answer = worker.ask({"rows": {}})
        self.check(worker, [one for needs, _ in asked for one in needs], [keys for _, keys in asked])

    def test_a_function_of_other_keys_is_refused_by_name(self):
        sentences = {
            "wrong": r"forward asks for the id \d+ of table item.*, which keys= does not name: let it name all",
            "few": "forward asks for the id -?\\d+ of table users and \\d+ others, which keys= does not name",
        }
        for how, sentence in sentences.items():
            with self.subTest(how=how):
                worker = self.begin(how)
                batch = {"examples": list(range(16)), "seed": 1}
                self.bring(worker.ask({"find": {"batches": [batch]}})["found"]["needs"])
                error = worker.train((range(16), 1))["error"]
                self.assertRegex(error["message"], sentence)
                self.assertTrue(error["ended"], "no worker tries it again")
        worker = self.begin("strange")
        error = worker.ask({"find": {"batches": [{"examples": [1], "seed": 1}]}})["error"]
        self.assertIn("keys= names the table people, but the model's are users, item", error["message"])

    def test_it_refuses_the_same_by_itself(self):
        self.assertRegex(self.alone("wrong", code=1), "forward asks for the id .* which keys= does not name")
        self.assertEqual(self.alone("hint"), self.alone(), "and else does the same")

    def test_more_rows_than_a_step_may_have(self):
        self.MOST = 30
        worker = self.begin()
        self.assertIn("the rows of one step have", worker.train((range(16), 1))["error"]["message"])

    def test_behind_fit_rows_are_the_jobs(self):
        self.write(TASK.replace("downpour.fit(", "model, _ = downpour.fit(") + """
try:
    model(*draw(2)[:3])
except downpour.TrainingError as error:
    print(error)
for layer in (model.user, model.item):
    layer.set_rows([0, 10**17], torch.ones(2, layer.reader.table.width))
print("the rows that it was given:", model.friends(torch.tensor([[0, 10**17]])).tolist())
""")  # fmt: skip
        worker = self.begin()
        self.assertEqual(worker.ask({"finish": {"history": []}}), {"finished": {}})
        said = worker.end()[1]
        self.assertIn("the rows of table users lie in the job's checkpoints, and not in this process", said)
        self.assertIn("by layer.set_rows(*downpour.Job(JOB_DIR).table('users'))", said)
        self.assertIn("the rows that it was given: [[2.0, 2.0, 2.0, 2.0]]", said)


if __name__ == "__main__":
    unittest.main()
