"""The area under the ROC curve, for bench/bench_clicks and its peers."""

try:
    import numpy
except ImportError:
    numpy = None  # which bench_clicks says


def auc(scores, labels):
    ranks = numpy.empty(len(scores))
    ranks[numpy.argsort(scores, kind="stable")] = numpy.arange(1, len(scores) + 1)
    positive = labels == 1
    count = positive.sum()
    return (ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(labels) - count))
