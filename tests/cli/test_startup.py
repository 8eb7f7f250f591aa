"""The bytecode that an installation writes."""

import os
import subprocess
import sys
from pathlib import Path


def test_the_servers_and_what_they_import_are_compiled_even_where_python_writes_no_bytecode(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "tonnage.cli.startup"], env=environment, check=True)
    compiled = {file.name.partition(".")[0] for file in tmp_path.rglob("*.pyc")}
    assert {"service", "reservations", "httptools_impl", "arrayprint"} <= compiled
