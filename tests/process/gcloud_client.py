"""Google's own gcloud, as a person has it who works with the job service."""

import os
import shutil

GCLOUD = shutil.which("gcloud")


def environment_of(folder, address):
    """That of a gcloud which asks the service at `address` for everything, and keeps its settings in `folder`."""
    environment = os.environ | {
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": "p",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
    }
    for api in ("ML", "STORAGE", "LOGGING"):
        environment[f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}"] = f"http://{address}/"
    return environment
