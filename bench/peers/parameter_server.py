"""The peers' task with TensorFlow's ParameterServerStrategy: a loop of its own with a ClusterCoordinator. TF_CONFIG
says which task this process is."""

import json
import os

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402
from task import MOMENTUM, RATE, SHAPES, Marks, Settings  # noqa: E402

RECORD = 28 * 28 + 1  # an image and its label


def initial_values():
    """By name, as torch draws them: uniform within 1 over the root of what a unit reads."""
    draws, values = numpy.random.default_rng(1), {}
    for name, shape in SHAPES.items():
        bound = 1 / numpy.sqrt(numpy.prod(shape[1:]))
        kernel = draws.uniform(-bound, bound, shape).astype("float32")
        values[name] = kernel.transpose(2, 3, 1, 0) if len(shape) == 4 else kernel.T
        values[f"{name}/bias"] = draws.uniform(-bound, bound, shape[0]).astype("float32")
    return values


def network(values, images):
    x = images
    for name in ("conv0", "conv1"):
        x = tf.nn.conv2d(x, values[name], 1, "VALID") + values[f"{name}/bias"]
        x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "VALID")
    x = tf.reshape(x, [-1, 512])
    x = tf.nn.relu(x @ values["dense0"] + values["dense0/bias"])
    return x @ values["dense1"] + values["dense1/bias"]


def dataset_of(settings, examples):
    file = str(settings.folder / "train.bin")

    def parsed(records):
        numbers = tf.io.decode_raw(records, tf.uint8)
        images = tf.cast(tf.reshape(numbers[:, :-1], [-1, 28, 28, 1]), tf.float32) / 255
        return images, tf.cast(numbers[:, -1], tf.int64)

    def make():
        records = tf.data.FixedLengthRecordDataset(file, RECORD).cache().shuffle(examples).repeat()
        return records.batch(settings.batch).map(parsed).prefetch(1)

    return make


def coordinate(resolver, settings):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        variables = {name: tf.Variable(value) for name, value in initial_values().items()}
        velocities = {name: tf.Variable(tf.zeros_like(value), trainable=False) for name, value in variables.items()}
        applied = tf.Variable(0, dtype=tf.int64, trainable=False)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    images, labels = settings.data("train")
    make = dataset_of(settings, len(labels))
    batches = iter(coordinator.create_per_worker_dataset(make))

    def step(iterator):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, network(variables, x))
            loss = tf.reduce_mean(losses)
        for name, gradient in tape.gradient(loss, variables).items():
            variable, velocity = variables[name], velocities[name]
            tf.raw_ops.ResourceApplyMomentum(var=variable.handle, accum=velocity.handle, lr=RATE, grad=gradient,
                                             momentum=MOMENTUM)  # fmt: skip
        applied.assign_add(1)

    @tf.function
    def train(iterator):
        strategy.run(step, args=(iterator,))

    marks, steps = Marks(settings.folder), settings.epochs * -(-len(labels) // settings.batch)
    first = 2 * len(resolver.cluster_spec().as_dict()["worker"])  # which trace the function on each worker
    half = (steps - first) // 2
    for count in (first, half, steps - first - half):
        for _ in range(count):
            coordinator.schedule(train, args=(batches,))
        coordinator.join()
        marks.add()
    images, labels = settings.data("eval")
    values = {name: variable.read_value() for name, variable in variables.items()}
    right = 0
    for begin in range(0, len(labels), 500):
        part = images[begin : begin + 500, ..., None].astype("float32") / 255
        right += int((network(values, part).numpy().argmax(1) == labels[begin : begin + 500]).sum())
    (settings.folder / "accuracy").write_text(str(right / len(labels)))
    counts = {"timed": (steps - first) * settings.batch, "applied": int(applied.read_value()), "steps": steps}
    (settings.folder / "counts.json").write_text(json.dumps(counts))


def main():
    settings = Settings.read()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        return coordinate(resolver, settings)
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
                                  protocol="grpc", config=config)  # fmt: skip
    server.join()


if __name__ == "__main__":
    main()
