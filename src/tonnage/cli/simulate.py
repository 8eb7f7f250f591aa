"""`tonnage simulate`: several policies on one workload, side by side.

This module reads the options, checks everything that can be wrong before the first run, and writes what came of it.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.flags.filenames import FilenamesCommand
from tonnage.cli.flags.policy import names
from tonnage.cli.inputs import BadInput, plugin_files, standard_input
from tonnage.cli.output import JSON, TABLE, YAML, document, echo_table, output_option

if TYPE_CHECKING:
    from tonnage.simulator.policies import Policy
    from tonnage.simulator.source import SceneSource, Setting
    from tonnage.simulator.studies.cache import Cache
    from tonnage.simulator.studies.results import Results
    from tonnage.simulator.studies.sweep import RunOptions

_MOST_TOLD = 5
_EXAMPLES = """\b
Examples:
  tonnage simulate --init > workload.yaml
  tonnage simulate --workload workload.yaml --policy fgd --policy spread
  tonnage simulate --nodes nodes.csv --pods pods.csv --policy fgd,best-fit --seeds 10
  tonnage simulate --nodes nodes.csv --pods pods.csv --set nodes.g2.count=560
"""


class _Command(FilenamesCommand):
    """Remembers what was typed, so that results can say how to repeat them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["typed"] = shlex.join(["tonnage", "simulate", *args])
        return super().parse_args(ctx, args)


@click.command("simulate", cls=_Command, epilog=_EXAMPLES)
@click.option("--init", is_flag=True, help="Print a commented example of a workload file, and do nothing else.")
@click.option("--workload", metavar="FILE", help="An invented workload: nodes, classes of pods, how they come and go.")
@click.option("--nodes", metavar="FILE", help="The nodes of a trace: sn, cpu_milli, memory_mib, gpu, model.")
@click.option(
    "--pods",
    multiple=True,
    metavar="FILE",
    help="The pods of a trace: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and maybe more. May be repeated.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE...",
    help="Manifests of a cluster that the workload comes to, as for `tonnage schedule`. May be repeated.",
)
@click.option(
    "--mode",
    type=click.Choice(["fill", "replay"]),
    help="Fill the cluster with pods that stay, or replay them over time.  [default: fill for traces, else replay]",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    shell_complete=names,
    metavar="NAME|FILE",
    help="A policy by name, or a scheduler configuration. May be repeated; names may have commas between.",
)
@click.option(
    "--config", "configs", multiple=True, metavar="FILE", help="A scheduler configuration to compare. May be repeated."
)
@plugin_files
@click.option("--seed", type=click.IntRange(min=0), help="The first seed.  [default: the workload's, or 42]")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many seeds.")
@click.option(
    "--demand",
    type=click.IntRange(1, 1000),
    default=130,
    show_default=True,
    help="Filling: how much pods ask for in the end, in percent of all GPUs.",
)
@click.option("--queue-failed", is_flag=True, help="Filling: let pods wait that do not fit, instead of dropping them.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="PATH=VALUE",
    help="Run also with a value changed, such as nodes.g2.count=560; several with commas. May be repeated.",
)
@click.option(
    "--picture",
    type=click.IntRange(0, 1000),
    default=100,
    show_default=True,
    help="Show every node at this percent of arrived demand, or of the time.",
)
@click.option("--processes", type=click.IntRange(1, 1024), help="Processes to use.  [default: one per CPU]")
@click.option("--cache", "cache_folder", metavar="FOLDER", help="Where runs are kept, so that they are made once.")
@click.option("--no-cache", is_flag=True, help="Make every run anew and keep none.")
@click.option("--dask", metavar="ADDRESS", help="Run on the workers of a Dask cluster instead of on processes here.")
@click.option(
    "--report",
    "report_file",
    metavar="FILE.html",
    help="Write a report as one page that needs nothing else; of several traces one each, with their names added.",
)
@click.option("--csv", "csv_file", metavar="FILE", help="Write every figure to a file of comma-separated values.")
@output_option(TABLE, JSON, YAML)
def command(
    init: bool,
    workload: str | None,
    nodes: str | None,
    pods: tuple[str, ...],
    files: tuple[str, ...],
    mode: str | None,
    policies: tuple[str, ...],
    configs: tuple[str, ...],
    plugins: tuple[str, ...],
    changes: tuple[str, ...],
    cache_folder: str | None,
    no_cache: bool,
    dask: str | None,
    report_file: str | None,
    csv_file: str | None,
    output: str,
    **numbers: Any,
) -> None:
    """Compare policies on a recorded or invented workload, over virtual time.

    The cluster, the plugins and the actions are those of the other commands; only the clock is virtual. The same input
    and seed give the same result.
    """
    from tonnage.cli.resultstable import results_csv, results_table
    from tonnage.simulator.workloads.example import EXAMPLE

    if init:
        click.echo(EXAMPLE, nl=False)
        return
    for file in (csv_file, report_file):
        if file is not None:
            _check_writable(Path(file))
    with _bad_input():
        sources = _sources(workload, nodes, pods, files)
        variations = [(), *(_settings(change) for change in changes)]
        wanted = _policies((*policies, *configs), next(iter(sources.values())), plugins)
        options = _options(mode or ("fill" if pods else "replay"), numbers)
        cache = None if no_cache else _cache(cache_folder)
        processes = numbers["processes"] or os.cpu_count() or 1
        study = _Study(sources, variations, wanted, options, _seeds(sources, numbers), processes, dask, cache)
        results = study.run(click.get_current_context().meta["typed"], with_bound=output != TABLE or bool(report_file))
    if csv_file is not None:
        _write(Path(csv_file), results_csv(results))
    if report_file is not None:
        _write_reports(Path(report_file), results)
    if output != TABLE:
        found = next(iter(results.values())) if len(results) == 1 else {"workloads": results}
        click.echo(document(found, output), nl=False)
    else:
        echo_table("\n\n".join("\n".join(results_table(one)) for one in results.values()))


# -- what is given


@contextmanager
def _bad_input() -> Iterator[None]:
    from concurrent.futures.process import BrokenProcessPool

    from tonnage.config.finder import PluginError
    from tonnage.config.notes import ConfigError
    from tonnage.framework.session import SessionError
    from tonnage.manifests.read import ManifestError
    from tonnage.simulator.scene import SceneError
    from tonnage.simulator.source import SettingError
    from tonnage.simulator.studies.distributed import DaskError

    try:
        yield
    except (DaskError, BrokenProcessPool) as error:
        raise click.ClickException(f"{error}; what was made is kept, so that the same command goes on") from error
    except (ManifestError, ConfigError, PluginError, SceneError, SettingError, SessionError) as error:
        raise BadInput(str(error)) from error


def _sources(
    workload: str | None, nodes: str | None, pods: Sequence[str], files: Sequence[str]
) -> "dict[str, SceneSource]":
    """What is simulated, by name."""
    from tonnage.config.source import text_of_file
    from tonnage.manifests.read import read_files
    from tonnage.simulator.source import SceneSource
    from tonnage.simulator.workloads.workload import read_workload

    if bool(nodes) != bool(pods):
        raise BadInput("a trace has two files: give both --nodes and --pods")
    if bool(workload) == bool(pods):
        raise BadInput("give either a trace with --nodes and --pods, or --workload; --init prints an example of one")
    if files and pods:
        raise BadInput("a trace brings its own nodes; -f goes with --workload")
    if workload is None:
        assert nodes is not None
        return _traces(nodes, pods)
    described = read_workload(text_of_file(workload), workload)
    start = read_files(files, stdin=standard_input()) if files else None
    if start is not None:
        for problem in start.problems:
            click.echo(str(problem), err=True)
    elif not described.nodes:
        raise BadInput(f"{workload}: there are no nodes; describe some, or give a cluster with -f")
    return {Path(workload).stem: SceneSource(workload=described, start=start)}


def _traces(nodes: str, pods: Sequence[str]) -> "dict[str, SceneSource]":
    from tonnage.simulator.source import SceneSource
    from tonnage.simulator.traces.openb import Trace, read_nodes, read_pods, unplaceable

    found: dict[str, SceneSource] = {}
    lines = read_nodes(nodes)
    for file in pods:
        trace = Trace(file, lines, read_pods(file))
        told = list(unplaceable(trace))
        for sentence in told[:_MOST_TOLD]:
            click.echo(sentence, err=True)
        if len(told) > _MOST_TOLD:
            click.echo(f"... and {len(told) - _MOST_TOLD} more pods that can never run", err=True)
        name = Path(file).stem
        found[file if name in found else name] = SceneSource(trace=trace)
    return found


def _settings(change: str) -> "tuple[Setting, ...]":
    """The values that one variation changes."""
    from tonnage.simulator.source import Setting

    settings = []
    for part in change.split(","):
        path, sign, value = part.strip().partition("=")
        if not (path and sign and value):
            raise BadInput(f"--set {change}: expected PATH=VALUE, such as nodes.g2.count=560")
        settings.append(Setting(path, value))
    return tuple(settings)


def _policies(given: Sequence[str], source: "SceneSource", plugin_paths: Sequence[str]) -> "dict[str, Policy]":
    """The policies by the name that results have them under; warnings about them go to standard error."""
    from tonnage.simulator.policies import DEFAULTS, POLICIES, is_policy, policy_named, policy_of_file

    found: dict[str, Policy] = {}
    scene = source.scene()
    for text in given or DEFAULTS:
        names = text.split(",") if all(part.strip() in POLICIES for part in text.split(",")) else [text]
        for name in map(str.strip, names):
            if not is_policy(name) and (Path(name).exists() or "/" in name or Path(name).suffix):
                policy = policy_of_file(name, plugin_paths)
            else:
                policy = policy_named(name, plugin_paths)
            settings = policy.settings(scene)
            for note in settings.warnings if policy.text else ():
                click.echo(note.shown(policy.source, "warning"), err=True)
            found[name if policy.name in found else policy.name] = policy
    return found


def _options(mode: str, numbers: dict[str, Any]) -> "RunOptions":
    from tonnage.simulator.studies.sweep import RunOptions

    if mode == "fill":
        return RunOptions(mode, numbers["demand"], numbers["queue_failed"], numbers["picture"])
    return RunOptions(mode, picture=numbers["picture"])


def _seeds(sources: "dict[str, SceneSource]", numbers: dict[str, Any]) -> list[int]:
    first = numbers["seed"]
    if first is None:
        described = next(iter(sources.values())).workload
        first = described.seed if described is not None else 42
    return list(range(first, first + numbers["seeds"]))


def _cache(folder: str | None) -> "Cache":
    from tonnage.simulator.studies.cache import Cache, default_folder

    place = Path(folder) if folder is not None else default_folder()
    try:
        return Cache(place, lambda message: click.echo(message, err=True))
    except OSError as error:
        raise BadInput(f"{place}: runs cannot be kept there ({error.strerror}); give --cache or --no-cache") from error


# -- the runs


class _Study:
    """Everything that is compared."""

    def __init__(
        self,
        sources: "dict[str, SceneSource]",
        variations: "Sequence[tuple[Setting, ...]]",
        policies: "dict[str, Policy]",
        options: "RunOptions",
        seeds: Sequence[int],
        processes: int,
        dask: str | None,
        cache: "Cache | None",
    ) -> None:
        self._sources = sources
        self._variations = variations
        self._policies = policies
        self._options = options
        self._seeds = seeds
        self._processes = processes
        self._dask = dask
        self._cache = cache

    def run(self, command: str, with_bound: bool) -> "dict[str, Results]":
        """The results of each workload; the upper bound takes as long as a run or two."""
        from tonnage.simulator.studies.summary import results_of
        from tonnage.simulator.studies.sweep import PlannedRun, Sweep

        varied = [
            (workload, settings, source.with_settings(settings))
            for workload, source in self._sources.items()
            for settings in self._variations
        ]
        plan = [
            (workload, _label(name, settings), PlannedRun(number, policy, seed, self._options))
            for number, (workload, settings, _) in enumerate(varied)
            for name, policy in self._policies.items()
            for seed in self._seeds
        ]
        sweep = Sweep([source for _, _, source in varied], self._cache, self._processes, self._dask)
        with _progress(len(plan)) as progress:
            runs = sweep.run([job for _, _, job in plan], progress)
        found: dict[str, dict[str, list[Any]]] = {}
        for (workload, label, _), run in zip(plan, runs, strict=True):
            found.setdefault(workload, {}).setdefault(label, []).append(run)
        mode, seeds = self._options.mode, self._seeds
        results: dict[str, Results] = {}
        for workload, made in found.items():
            bound = self._bound(workload) if with_bound else {}
            results[workload] = results_of(
                made, mode=mode, workload=workload, command=command, seeds=seeds, bound=bound
            )
        return results

    def _bound(self, workload: str) -> dict[str, float]:
        """What no policy can allocate more than; left out where there is no solver, and with changed values."""
        from tonnage.simulator.studies.bound import MissingSolverError
        from tonnage.simulator.studies.fillbound import fill_bound

        if self._options.mode != "fill" or len(self._variations) > 1:
            return {}
        try:
            return fill_bound(self._sources[workload].scene(), self._seeds, self._options.demand)
        except MissingSolverError as error:
            click.echo(f"no upper bound: {error}", err=True)
            return {}


def _label(policy: str, settings: "Sequence[Setting]") -> str:
    return ", ".join([policy, *map(str, settings)])


@contextmanager
def _progress(runs: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=runs)
        yield lambda done: bar.advance(task, done)


# -- what is written


def _check_writable(path: Path) -> None:
    """Say before the first run that a result could not be written."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder; give a file in it")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise BadInput(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise BadInput(f"{path}: no permission to write there")


def _write(path: Path, text: str) -> None:
    """Write a file as a whole: it is there complete, or not at all."""
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", dir=path.absolute().parent, suffix=".part", delete=False, encoding="utf-8") as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def _write_reports(path: Path, results: "dict[str, Results]") -> None:
    from tonnage.report.render import UnwritableReportError, write_report

    for name, one in results.items():
        place = path if len(results) == 1 else path.with_name(f"{path.stem}-{Path(name).stem}{path.suffix}")
        try:
            write_report(one, place)
        except UnwritableReportError as error:
            raise click.ClickException(str(error)) from error
