"""Puts the sample job into the program, with paths as they are beside its own data.

    embed_job.py OUTPUT.cc JOB.yaml FOLDER     FOLDER: where the data of JOB.yaml lie, seen from it
"""

import pathlib
import sys


def main(output, job, folder):
    lines = pathlib.Path(job).read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("#"))
    assert f" {folder}/" in text and ')job"' not in text
    text = text.replace(f" {folder}/", " ")
    pathlib.Path(output).write_text(
        '#include "tools/digits.h"\n'
        f'namespace downpour {{\nconst char* DigitsJob() {{ return R"job({text})job"; }}\n}}  // namespace downpour\n'
    )


main(*sys.argv[1:])
