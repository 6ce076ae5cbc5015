"""`downpour export --format onnx`: other programs compute from the file what `downpour predict` answers."""

import json
import unittest

import numpy
from cluster import ProcessTest
from model_files import images_in

try:
    import onnx
    import onnx.numpy_helper
except ImportError:
    onnx = None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None


class Evaluator:
    """onnxruntime, or else the few operators of these models by numpy, after the onnx package has checked the file."""

    def __init__(self, path):
        self.model = onnx.load(path)
        onnx.checker.check_model(self.model, full_check=True)
        shapes = {one.name: one.type.tensor_type.shape.dim for one in self.model.graph.input}
        self.inputs = {name: [size.dim_value for size in shape][1:] for name, shape in shapes.items()}
        self.session = onnxruntime and onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(self, inputs):
        names = [one.name for one in self.model.graph.output]
        if self.session:
            return dict(zip(names, self.session.run(names, inputs)))
        values = {one.name: onnx.numpy_helper.to_array(one) for one in self.model.graph.initializer} | inputs
        for node in self.model.graph.node:
            about = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
            values[node.output[0]] = OPERATORS[node.op_type](*[values[name] for name in node.input], **about)
        return {name: values[name] for name in names}


def softmax(x, axis):
    shares = numpy.exp(x - x.max(axis, keepdims=True))
    return shares / shares.sum(axis, keepdims=True)


OPERATORS = {
    "Flatten": lambda x, axis: x.reshape(x.shape[0], -1),
    "Div": numpy.divide,
    "Mul": numpy.multiply,
    "Add": numpy.add,
    "Sum": lambda *xs: sum(xs),
    "Gemm": lambda x, w, b=0: x @ w + b,
    "MatMul": numpy.matmul,
    "Relu": lambda x: numpy.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "Tanh": numpy.tanh,
    "Softmax": softmax,
    "ArgMax": lambda x, axis, keepdims: x.argmax(axis),
    "Concat": lambda *xs, axis: numpy.concatenate(xs, axis),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Transpose": lambda x, perm: x.transpose(perm),
    "Gather": lambda x, at, axis: x[:, at],
    "Identity": lambda x: x,
}


@unittest.skipUnless(onnx, "Debian's python3-onnx is not here")
class OnnxTest(ProcessTest):
    def exported(self):
        path = self.folder / "model.onnx"
        code, out, err = self.tool("export", "--format", "onnx", "--job-dir", self.job_dir, "--out", path)
        self.assertEqual(code, 0, err)
        self.said = err
        return Evaluator(str(path))

    def run_job(self):
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
        self.assertEqual(code, 0, out + err)

    def predicted(self, rows):
        file = self.folder / "rows.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, out, err = self.tool("predict", self.job_dir, "--instances", file)
        self.assertEqual(code, 0, err)
        return [json.loads(line) for line in out.splitlines()]

    def check(self, answers, predictions):
        for name, values in answers.items():
            told = numpy.array([one[name] for one in predictions])
            self.assertLess(abs(values.reshape(told.shape) - told).max(), 1e-5, name)

    def test_images(self):
        self.write_job()
        self.run_job()
        pixels = images_in(self.folder / "eval-images")
        evaluator = self.exported()
        self.assertEqual(evaluator.inputs, {"image": [8, 8, 1]})
        for rows in (1, 200):
            answers = evaluator.run({"image": pixels[:rows].reshape(-1, 8, 8, 1).astype("float32")})
            self.assertEqual(set(answers), {"probabilities", "class"})
            self.check(answers, self.predicted(pixels[:rows].tolist()))
        metadata = {one.key: one.value for one in evaluator.model.metadata_props}
        self.assertEqual(json.loads(metadata["job"])["name"], "small")

    def write_records_job(self, model, **sections):
        draw = numpy.random.default_rng(1)
        rows = [{"a": draw.normal(), "b": draw.normal(), "c": list(draw.normal(size=4))} for _ in range(300)]
        lines = [json.dumps({**row, "y": row["a"] * 3 + 100, "k": f"w{i % 9}", "l": f"v{i % 5}"}) + "\n"
                 for i, row in enumerate(rows)]  # fmt: skip
        (self.folder / "train.jsonl").write_text("".join(lines))
        self.rows = [{**json.loads(line), "y": None} for line in lines[:50]]
        data = {"format": "jsonl", "train": "train.jsonl", "label": {"column": "y", "scale": {"mean": 100}},
                "columns": ["a", "b", {"name": "c", "width": 4}, {"name": "k", "key": "text"},
                            {"name": "l", "key": "text"}]}  # fmt: skip
        job = {"name": "records", "data": data, "model": {"loss": "meanSquaredError", **model}, **sections}
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))

    def test_every_layer_of_columns(self):
        self.write_records_job({
            "inputs": [{"name": "ab", "columns": ["a", "b"]}, {"name": "c"}],
            "layers": [
                {"name": "d", "from": "c", "dense": {"units": 2, "activation": "sigmoid", "bias": False}},
                {"name": "e", "from": "ab", "activation": {"function": "tanh"}},
                {"name": "m", "from": ["d", "e", "ab"], "multiply": {}},
                {"name": "s", "from": ["m", "d", "e"], "add": {}},
                {"name": "p", "from": ["s", "m", "d"], "dot": {}},
                {"name": "r", "from": "s", "dropout": {"rate": 0.5}},
                {"from": ["p", "r", "c"], "concat": {}},
                {"dense": {"units": 3, "activation": "relu"}},
                {"dense": {"units": 1}},
            ],
        })  # fmt: skip
        self.run_job()
        inputs = {"ab": numpy.array([[row["a"], row["b"]] for row in self.rows], "float32"),
                  "c": numpy.array([row["c"] for row in self.rows], "float32")}  # fmt: skip
        evaluator = self.exported()
        self.assertEqual(evaluator.inputs, {"ab": [2], "c": [4]})
        answers = evaluator.run(inputs)
        told = numpy.array([one["prediction"] for one in self.predicted(self.rows)])
        self.assertLess(abs(answers["prediction"][:, 0] / told - 1).max(), 1e-5)

    def test_embeddings_are_inputs_that_other_programs_fill_in(self):
        self.write_records_job({
            "tables": [{"name": "words", "width": 4}],
            "layers": [
                {"name": "two", "embedding": {"table": "words", "columns": ["k", "l"]}},
                {"name": "pairs", "dot": {}},
                {"name": "sum", "embedding": {"table": "words", "columns": ["k", "l"], "join": "sum"}},
                {"from": ["pairs", "sum"], "concat": {}},
                {"dense": {"units": 1}},
            ],
        })  # fmt: skip
        self.run_job()
        evaluator = self.exported()
        self.assertIn("rows of 1 table", self.said)
        self.assertEqual(evaluator.inputs, {"two": [2, 4], "sum": [4]})
        keys = sorted({row[name] for row in self.rows for name in "kl"})
        where = ["--table", "words", "--job-dir", self.job_dir]
        code, out, err = self.tool("table", "get", *where, "-o", "json", "--text", *keys)
        self.assertEqual(code, 0, err)
        values = {key: numpy.array(row["values"], "float32") for key, row in zip(keys, json.loads(out)["rows"])}
        two = numpy.array([[values[row["k"]], values[row["l"]]] for row in self.rows])
        answers = evaluator.run({"two": two, "sum": two.sum(1)})
        told = numpy.array([one["prediction"] for one in self.predicted(self.rows)])
        self.assertLess(abs(answers["prediction"][:, 0] / told - 1).max(), 1e-5)


if __name__ == "__main__":
    unittest.main()
