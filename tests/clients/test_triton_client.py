"""Triton's client for Python asks models by the Open Inference Protocol, with tensors as bytes and as JSON."""

import importlib.util
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process"))

from environment import run_again_in_the_environment  # noqa: E402
from prediction_service import WIDTH, PredictionCase  # noqa: E402

HAS_CLIENT = importlib.util.find_spec("tritonclient") is not None


@unittest.skipUnless(HAS_CLIENT, "there is no tritonclient: tools/dev/clients_environment makes a Python that has it")
class TritonClientTest(PredictionCase):
    def setUp(self):
        super().setUp()
        import tritonclient.http

        self.triton = tritonclient.http
        self.start_service()
        self.deploy_both()
        self.client = self.triton.InferenceServerClient(self.address)
        self.addCleanup(self.client.close)

    def infer(self, binary, model="digits", **words):
        import numpy

        rows = self.triton.InferInput("image", [len(self.rows), WIDTH], "FP32")
        rows.set_data_from_numpy(numpy.array(self.rows, numpy.float32), binary_data=binary)
        wanted = [self.triton.InferRequestedOutput(name, binary_data=binary) for name in ("class", "probabilities")]
        return self.client.infer(model, [rows], outputs=wanted, **words)

    def test_health_and_metadata(self):
        self.assertTrue(self.client.is_server_live() and self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("digits") and self.client.is_model_ready("digits", "v2"))
        self.assertFalse(self.client.is_model_ready("none"))
        self.assertEqual(self.client.get_server_metadata()["name"], "downpour")
        self.assertEqual(self.client.get_model_metadata("digits")["inputs"][0]["shape"], [-1, WIDTH])

    def test_answers_are_those_of_rest(self):
        for version in ("v1", "v2"):
            right = self.predictions(f"digits/versions/{version}")
            for binary in (True, False):
                for packed in (None, "gzip", "deflate"):
                    answer = self.infer(binary, model_version=version, request_compression_algorithm=packed)
                    self.assertEqual(answer.as_numpy("class").ravel().tolist(), [row["class"] for row in right])
                    self.assertEqual(answer.get_response()["model_version"], version)
        self.assertEqual(self.infer(True, request_id="seven").get_response()["id"], "seven")

    def test_refusals_are_told(self):
        from tritonclient.utils import InferenceServerException

        with self.assertRaisesRegex(InferenceServerException, "there is no model none"):
            self.infer(True, model="none")
        with self.assertRaisesRegex(InferenceServerException, "has no version v9"):
            self.infer(True, model_version="9")


if __name__ == "__main__":
    unittest.main() if HAS_CLIENT else run_again_in_the_environment(__file__)
