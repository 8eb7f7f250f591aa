"""`make audit`: whether advisories are known against the packages of the runtime lock.

The advisories come from a service of OSV's kind, which pip-audit asks; what could not be asked about is no pass.
"""

import argparse
import json
import subprocess
import sys

from release.lock import LOCK, ROOT

_NEEDS = "it asks a service of OSV's kind over the network; ARGS='--osv-url URL' names another than the public one"


def main() -> int:
    """Print what is known against each package; 1 if there is something or if nobody could be asked."""
    parser = argparse.ArgumentParser(prog="python -m release.audit", description=__doc__)
    parser.add_argument("--osv-url", metavar="URL", help="where to ask, as POST URL with a package per question")
    url = parser.parse_args().osv_url
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes", "--disable-pip"]
    command += ["--vulnerability-service", "osv", "--format", "json", "--progress-spinner", "off"]
    command += ["--osv-url", url] if url else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        cause = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        print(f"Nothing was audited: {cause}\nmake audit could not learn of any advisory: {_NEEDS}.", file=sys.stderr)
        return 1
    found = [
        f"{package['name']} {package['version']}: {known['id']}, {_fix(known['fix_versions'])}"
        for package in packages
        for known in package.get("vulns", ())
    ]
    skipped = [
        f"{package['name']}: not audited, {package['skip_reason']}" for package in packages if "skip_reason" in package
    ]
    for line in found + skipped:
        print(line)
    print(f"{LOCK.relative_to(ROOT)}: {len(packages)} packages, {len(found)} advisories, {len(skipped)} not audited")
    return 1 if found or skipped else 0


def _fix(versions: list[str]) -> str:
    return f"fixed in {', '.join(versions)}" if versions else "not fixed in any version"


if __name__ == "__main__":
    sys.exit(main())
