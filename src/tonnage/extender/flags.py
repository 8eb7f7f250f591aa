"""The flags of `tonnage extender`: those of every HAMi version since 2.4 by the same names, and our own.

Underscores, as HAMi and klog write them, are hidden spellings. HAMi removed the flags that name resources and give
defaults when the device configuration came; the extender reads them as long as there is no such file. Flags without
effect are accepted; their help says so, and so does a warning when one is given.
"""

import re
from collections.abc import Callable, Iterator
from functools import wraps
from importlib.util import find_spec
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tonnage.extender.options import DeviceFlags, ExtenderOptions, flag
from tonnage.kube.ratelimit import limit_warnings
from tonnage.plugins.gpus.gpupolicy import POLICIES, is_policy
from tonnage.server.flags import parsed, switch
from tonnage.server.flagvalues import labels

R = TypeVar("R")
Decorator = Callable[[Callable[..., R]], Callable[..., R]]

_HAMI_ONLY = {
    "node_label_selector": "all nodes are looked at",
    "kube_timeout": "requests have time-outs of their own",
    "node_lock_timeout": "a lock is taken over as soon as its pod is done or gone",
    "profiling": "no profiles are served",
}
"""HAMi's flags that are shown and have no effect, each with the reason."""
_OVER_TLS = {
    "client_ca_file": "client certificates are shown over TLS only",
    "authorize_metrics": "tokens must not be sent in the clear",
}
_SHORTEST_LIFETIME = 30.0
_NAMESPACED = re.compile(r"[a-z0-9-]{1,63}/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_OF_PEERS = ("peer_bind", "peer_cert_file", "peer_key_file", "peer_ca_file")
_KLOG_SWITCHES = (
    "--add_dir_header", "--alsologtostderr", "--legacy_stderr_threshold_behavior", "--logtostderr", "--one_output",
    "--skip_headers", "--skip_log_headers",
)  # fmt: skip
_KLOG_VALUES = (
    "--v", "--alsologtostderrthreshold", "--log_backtrace_at", "--log_dir", "--log_file", "--log_file_max_size",
    "--stderrthreshold", "--vmodule",
)  # fmt: skip
_OF_SHARED_GCUS = ("--enflame-vgcu-legacy-resource-name", "--enflame-vgcu-percentage-resource-name")
_TOPOLOGY = "--sgpu-topology-aware"
_WITHOUT_EFFECT = {
    "flags of klog have no effect": (*_KLOG_VALUES, *_KLOG_SWITCHES),
    "Tonnage does not know the shared GCUs of before HAMi 2.10": _OF_SHARED_GCUS,
    "Tonnage does not score nodes by the links of sGPUs yet": (_TOPOLOGY,),
}


def extender_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command all of the extender's flags; they come together as its argument `options`."""

    @wraps(command)
    def with_options(*arguments: Any, **given: Any) -> R:
        return command(*arguments, options=_collect(given), **given)

    decorated: Callable[..., R] = with_options
    for decorator in reversed([*_options(), *_device_options(), *_options_without_effect()]):
        decorated = decorator(decorated)
    return decorated


def _collect(given: dict[str, Any]) -> ExtenderOptions:
    """The options among a command's parameters, which are taken out of them."""
    values = {name: given.pop(name) for name in ExtenderOptions.__struct_fields__ if name in given}
    devices = {name: given.pop(name) for name in DeviceFlags.__struct_fields__}
    if bool(values["cert_file"]) != bool(values["key_file"]):
        raise click.UsageError("--cert-file and --key-file belong together; give both, or neither for plain HTTP")
    for name, why in _OVER_TLS.items():
        if values[name] and not values["cert_file"]:
            raise click.UsageError(f"{flag(name)} needs --cert-file and --key-file: {why}")
    if len({bool(values[name]) for name in _OF_PEERS}) > 1:
        raise click.UsageError(f"{', '.join(map(flag, _OF_PEERS))} belong together; give all, or none")
    _check_own_certificates(values)
    lease = ("leader_elect_resource_name", "leader_elect_resource_namespace")
    if values["leader_elect"] and not all(values[name] for name in lease):
        raise click.UsageError(
            f"--leader-elect needs {flag(lease[0])} and {flag(lease[1])}: "
            f"those of the lease in the leaderElection of kube-scheduler's configuration"
        )
    warnings = [
        f"{flag(name)} has no effect: {why}" for name, why in _HAMI_ONLY.items() if _is_given(name, values[name])
    ]
    warnings += limit_warnings(values["kube_qps"], values["kube_burst"])
    for why, flags in _WITHOUT_EFFECT.items():
        used = [name for name in flags if given.pop(_parameter(name)) is not None]
        if used:
            warnings.append(f"{', '.join(used)}: {why}")
    return ExtenderOptions(device_flags=DeviceFlags(**devices), warnings=tuple(warnings), **values)


def _check_own_certificates(values: dict[str, Any]) -> None:
    for name, needed in {"certificate_secret": ("cert_file", "key_file"), "peer_certificate_secret": _OF_PEERS}.items():
        if values[name] and not all(values[one] for one in needed):
            raise click.UsageError(f"{flag(name)} needs {', '.join(map(flag, needed))}: where its files are written")
    if values["webhook_configuration"] and not values["certificate_secret"]:
        raise click.UsageError("--webhook-configuration needs --certificate-secret: the CA that it is told")
    if values["certificate_lifetime"] < _SHORTEST_LIFETIME:
        raise click.UsageError(
            f"--certificate-lifetime is shorter than {_SHORTEST_LIFETIME:.0f} s: nobody could renew it in time"
        )
    if (values["certificate_secret"] or values["peer_certificate_secret"]) and find_spec("cryptography") is None:
        raise click.UsageError("certificates are made with cryptography: pip install 'tonnage[certificates]'")


def _is_given(name: str, value: object) -> bool:
    """Whether the command line has the flag; a switch that is given as off asks for nothing."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE and value is not False


def _options() -> Iterator[Decorator[Any]]:
    where = "Where to listen for the webhook, probes, and the kube-scheduler on this host's loopback interface."
    yield _address("http_bind", "127.0.0.1:8080", where, aliases=("--http_bind",))
    yield _file("cert_file", "The TLS certificate; with the key, HTTPS.", aliases=("--cert_file",))
    yield _file("key_file", "The TLS key.", aliases=("--key_file",))
    yield _file(
        "client_ca_file",
        "The CA of client certificates with which a kube-scheduler elsewhere may call; without, only loopback may.",
    )
    yield _text("scheduler_name", "The scheduler that pods with devices are given by the webhook.")
    yield _switch("force_overwrite_default_scheduler", True, "Whether pods of default-scheduler are taken over.")
    yield _choice(
        "privileged_pods",
        ("skip", "deny"),
        "skip",
        "Whether privileged containers with devices are skipped, or their pods denied.",
    )
    yield _choice("placement", ("extender", "kube-scheduler"), "extender", "Who chooses the node among those that fit.")
    yield _choice(
        "node_scheduler_policy",
        ("binpack", "spread"),
        None,
        "How nodes are chosen; binpack, unless the configuration says otherwise.",
    )
    yield click.option(
        "--gpu-scheduler-policy",
        callback=parsed(_gpu_policy),
        metavar="POLICY",
        help="How a node's cards are chosen; spread, unless the configuration says otherwise.",
    )
    yield _file("config", "A scheduler configuration: actions, tiers, plugins.")
    yield _file("device_config_file", "HAMi's device configuration: vendors, names of resources, defaults.")
    yield _switch("enable_ascend", False, "Whether Huawei's chips are used.")
    yield _switch("enable_iluvatar", False, "Whether Iluvatar's chips are used.")
    yield click.option(
        "--node-label-selector", "node_label_selector", multiple=True, metavar="KEY=VALUE,...",
        callback=parsed(lambda texts: labels(",".join(texts))), help=_without_effect("node_label_selector"),
    )  # fmt: skip
    yield _file(
        "kubeconfig",
        "How to reach the cluster; else $KUBECONFIG, the pod's service account, or ~/.kube/config.",
    )
    yield _text("context", "The context in the kubeconfig file; by default its current one.")
    yield _number("kube_qps", float, None, "The most requests a second to the API server; no limit if it is not given.")
    yield _number("kube_burst", int, None, "The most such requests at once; twice the rate if it is not given.")
    yield _number("kube_timeout", int, 0, _without_effect("kube_timeout"))
    yield _duration("node_lock_timeout", "5m", _without_effect("node_lock_timeout"))
    yield _duration("node_lock_retry_timeout", "28s", "How long a pod waits for others on its node.")
    yield _duration("reservation_timeout", "60s", "When devices that are reserved and not bound are freed.")
    yield _switch("leader_elect", False, "Whether only the replica whose kube-scheduler leads decides.")
    yield _text("leader_elect_resource_name", "The lease of kube-scheduler.")
    yield _text("leader_elect_resource_namespace", "The namespace of that lease.")
    yield _address("peer_bind", None, "Where to listen for requests that other replicas forward.")
    yield _file("peer_cert_file", "This replica's TLS certificate for the other replicas, as server and client.")
    yield _file("peer_key_file", "Its key.")
    yield _file("peer_ca_file", "The CA of all replicas' certificates.")
    yield _secret(
        "certificate_secret",
        "The Secret in which replicas keep a certificate that they make and renew themselves; each writes it to "
        "--cert-file and --key-file.",
    )
    yield _secret("peer_certificate_secret", "The same for the files of --peer-cert-file, -key-file and -ca-file.")
    yield _text(
        "webhook_configuration",
        "The MutatingWebhookConfiguration that gives that certificate its names and is told its CA.",
    )
    yield _duration("certificate_lifetime", "2160h", "How long such a certificate is valid; it is renewed in time.")
    yield _address("metrics_bind_address", ":9395", "Where to serve metrics.")
    yield _switch(
        "authorize_metrics",
        False,
        "Whether /metrics answers, over HTTPS, only whom the API server lets get that path, by bearer token.",
    )
    yield _switch(
        "dashboard",
        False,
        "Whether to serve the dashboard beside the metrics, under /dashboard, to loopback peers and, with "
        "--authorize-metrics, to whom the API server lets look.",
    )
    yield _switch("legacy_metrics", False, "Whether metrics have their names before HAMi 2.9, too.")
    yield _switch("profiling", False, _without_effect("profiling"))
    yield _switch("debug", False, "Whether to log every decision.")


def _device_options() -> Iterator[Decorator[Any]]:
    """Flags that the device configuration has replaced."""
    for name in ("default_mem", "default_cores", "default_gpu"):
        yield click.option(flag(name), name, type=click.IntRange(0, 2**31 - 1), hidden=True)
    yield click.option(
        "--overwrite-env", "overwrite_env", callback=parsed("truth"), is_flag=False, flag_value="true", hidden=True
    )
    texts = [name for name in DeviceFlags.__struct_fields__ if not name.startswith(("default_", "overwrite_"))]
    for name in texts:
        yield click.option(flag(name), name, hidden=True)


def _options_without_effect() -> Iterator[Decorator[Any]]:
    for name in (*_KLOG_VALUES, *_OF_SHARED_GCUS):
        short = ("-v",) if name == "--v" else ()
        yield click.option(*short, name, _parameter(name), hidden=True)
    for name in (*_KLOG_SWITCHES, _TOPOLOGY):
        yield click.option(name, _parameter(name), is_flag=False, flag_value="true", hidden=True)


def _parameter(name: str) -> str:
    return "without_effect_" + name.strip("-").replace("-", "_")


def _without_effect(name: str) -> str:
    return f"No effect: {_HAMI_ONLY[name]}."


class _Aliased(click.Option):
    """An option whose help shows its first spelling only."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, words = record
        for alias in self.opts[1:]:
            names = names.replace(f", {alias}", "")
        return names, words


def _text(name: str, help_: str, metavar: str = "NAME") -> Decorator[Any]:
    return click.option(flag(name), name, default="", metavar=metavar, help=help_)


def _file(name: str, help_: str, aliases: tuple[str, ...] = ()) -> Decorator[Any]:
    return click.option(flag(name), *aliases, name, cls=_Aliased, default="", metavar="FILE", help=help_)


def _secret(name: str, help_: str) -> Decorator[Any]:
    return click.option(
        flag(name), name, callback=parsed(_namespaced_name), default="", metavar="NAMESPACE/NAME", help=help_
    )


def _namespaced_name(text: str) -> str:
    if text and not _NAMESPACED.fullmatch(text):
        raise ValueError(f"{text!r} is not a namespace, a slash and a name")
    return text


def _number(name: str, kind: type, default: float | None, help_: str) -> Decorator[Any]:
    bounds = click.IntRange(min=0) if kind is int else click.FloatRange(min=0)
    return click.option(flag(name), name, type=bounds, default=default, show_default=True, metavar="NUMBER", help=help_)


def _choice(name: str, choices: tuple[str, ...], default: str | None, help_: str) -> Decorator[Any]:
    return click.option(flag(name), name, type=click.Choice(choices), default=default, show_default=True, help=help_)


def _switch(name: str, default: bool, help_: str) -> Decorator[Any]:
    return switch(flag(name), default, help_)


def _address(name: str, default: str | None, help_: str, aliases: tuple[str, ...] = ()) -> Decorator[Any]:
    return click.option(
        flag(name), *aliases, name, cls=_Aliased, callback=parsed("address"), default=default,
        show_default=bool(default), metavar="HOST:PORT", help=help_,
    )  # fmt: skip


def _duration(name: str, default: str, help_: str) -> Decorator[Any]:
    return click.option(
        flag(name), name, callback=parsed("duration"), default=default, show_default=True, metavar="DURATION",
        help=help_,
    )  # fmt: skip


def _gpu_policy(text: str) -> str:
    if not is_policy(text):
        raise ValueError(f"{text!r} is no policy; write {', '.join(POLICIES)}, or several of them with commas between")
    return text
