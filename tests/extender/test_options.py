"""The extender's flags: HAMi's of all versions, and ours."""

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tonnage.extender.flags import extender_options
from tonnage.extender.options import DeviceFlags, ExtenderOptions
from tonnage.server.flagvalues import Address, address, duration, labels, truth


def run(*arguments):
    seen = []

    @click.command()
    @click.argument("rest", nargs=-1)
    @extender_options
    def command(options: ExtenderOptions, rest: tuple[str, ...]) -> None:
        seen.append(options)

    result = CliRunner().invoke(command, arguments)
    return (seen[0] if seen else None), result


def parsed(*arguments):
    options, result = run(*arguments)
    assert options is not None, result.output
    return options


def refused(*arguments):
    options, result = run(*arguments)
    assert options is None
    assert result.exit_code == 2
    return result.output


def test_without_flags_everything_is_as_in_hami():
    assert parsed() == ExtenderOptions()
    assert parsed().http_bind == Address("127.0.0.1", 8080)
    assert parsed().metrics_bind_address == Address("", 9395)
    assert parsed().node_lock_timeout == 300
    assert parsed().node_lock_retry_timeout == 28
    assert parsed().force_overwrite_default_scheduler is True


def test_what_the_chart_of_a_new_hami_says_is_understood():
    options = parsed(
        "--http_bind=0.0.0.0:443",
        "--cert_file=/tls/tls.crt",
        "--key_file=/tls/tls.key",
        "--scheduler-name=hami-scheduler",
        "--metrics-bind-address=:9395",
        "--node-scheduler-policy=binpack",
        "--gpu-scheduler-policy=spread",
        "--force-overwrite-default-scheduler=true",
        "--device-config-file=/device-config.yaml",
        "--leader-elect=true",
        "--leader-elect-resource-name=hami-scheduler",
        "--leader-elect-resource-namespace=kube-system",
        "--enable-ascend=true",
        "--enable-iluvatar=false",
        "--node-label-selector=gpu=on,zone=a",
        "--node-label-selector=rack=7",
        "--kube-qps=50",
        "--kube-burst=100",
        "--kube-timeout=30",
        "--node-lock-timeout=1m30s",
        "--node-lock-retry-timeout=0",
        "--legacy-metrics",
        "--profiling",
        "--debug",
        "-v=4",
    )
    assert options == ExtenderOptions(
        http_bind=Address("0.0.0.0", 443),
        cert_file="/tls/tls.crt",
        key_file="/tls/tls.key",
        scheduler_name="hami-scheduler",
        node_scheduler_policy="binpack",
        gpu_scheduler_policy="spread",
        device_config_file="/device-config.yaml",
        leader_elect=True,
        leader_elect_resource_name="hami-scheduler",
        leader_elect_resource_namespace="kube-system",
        enable_ascend=True,
        node_label_selector={"gpu": "on", "zone": "a", "rack": "7"},
        kube_qps=50,
        kube_burst=100,
        kube_timeout=30,
        node_lock_timeout=90,
        node_lock_retry_timeout=0,
        legacy_metrics=True,
        profiling=True,
        debug=True,
        warnings=(
            "--node-label-selector has no effect: all nodes are looked at",
            "--kube-timeout has no effect: requests have time-outs of their own",
            "--node-lock-timeout has no effect: a lock is taken over as soon as its pod is done or gone",
            "--profiling has no effect: no profiles are served",
            "--v: flags of klog have no effect",
        ),
    )


def test_what_hami_2_4_took_is_understood():
    options = parsed(
        "--default-mem=5000", "--default-cores=10", "--default-gpu=2", "--resource-name=a.com/gpu", "--overwrite-env",
        "--resource-mem", "a.com/mem", "--resource-mem-percentage=a.com/part", "--resource-cores=a.com/cores",
        "--resource-priority=vgputaskpriority", "--cambricon-mlu-name=cambricon.com/mlu", "--dcu-memory=d",
        "--iluvatar-cores=i", "--ascend-config-file=/ascend.yaml", "--logtostderr=true", "--debug=false",
    )  # fmt: skip
    assert options.device_flags == DeviceFlags(
        default_mem=5000,
        default_cores=10,
        default_gpu=2,
        resource_name="a.com/gpu",
        resource_mem="a.com/mem",
        resource_mem_percentage="a.com/part",
        resource_cores="a.com/cores",
        resource_priority="vgputaskpriority",
        overwrite_env=True,
        cambricon_mlu_name="cambricon.com/mlu",
        dcu_memory="d",
        iluvatar_cores="i",
        ascend_config_file="/ascend.yaml",
    )
    assert options.device_flags.given[:4] == ["--default-mem", "--default-cores", "--default-gpu", "--resource-name"]


def test_every_flag_of_the_reference_exists():
    names = """http_bind cert_file key_file scheduler-name default-mem default-cores default-gpu node-scheduler-policy
    gpu-scheduler-policy metrics-bind-address node-label-selector resource-name resource-mem resource-mem-percentage
    resource-cores resource-priority overwrite-env cambricon-mlu-name cambricon-mlu-memory cambricon-mlu-cores dcu-name
    dcu-memory dcu-cores iluvatar-name iluvatar-memory iluvatar-cores enable-ascend ascend-config-file debug kube-qps
    kube-burst kube-timeout profiling node-lock-timeout force-overwrite-default-scheduler leader-elect
    leader-elect-resource-name leader-elect-resource-namespace legacy-metrics node-lock-retry-timeout
    device-config-file enable-iluvatar placement privileged-pods reservation-timeout config kubeconfig
    client-ca-file peer-bind peer-cert-file peer-key-file peer-ca-file authorize-metrics"""
    command = click.command()(extender_options(lambda options: None))
    known = {spelling for parameter in command.params for spelling in parameter.opts}
    assert {f"--{name}" for name in names.split()} <= known


def test_our_own_flags():
    options = parsed(
        "--placement=kube-scheduler",
        "--privileged-pods=deny",
        "--reservation-timeout=1m",
        "--config=s.yaml",
        "--kubeconfig=k",
    )
    assert (options.placement, options.privileged_pods, options.reservation_timeout) == ("kube-scheduler", "deny", 60)
    assert (options.config, options.kubeconfig) == ("s.yaml", "k")


@pytest.mark.parametrize("verbosity", [["-v=4"], ["-v", "4"], ["-v4"], ["--v=4"], ["--v", "4"]])
def test_klog_flags_are_taken_in_all_spellings_and_named_in_a_warning(verbosity):
    options = parsed(*verbosity, "--logtostderr", "--stderrthreshold=INFO", "--vmodule=a=1", "--skip_headers=false")
    assert options.warnings == (
        "--v, --stderrthreshold, --vmodule, --logtostderr, --skip_headers: flags of klog have no effect",
    )


def test_flags_about_what_is_not_done_are_named_in_a_warning():
    options = parsed("--kunlun-name=a.com/xpu", "--sgpu-topology-aware", "--enflame-vgcu-percentage-resource-name=a")
    assert options.device_flags.kunlun_name == "a.com/xpu"
    assert options.warnings == (
        "--enflame-vgcu-percentage-resource-name: Tonnage does not know the shared GCUs of before HAMi 2.10",
        "--sgpu-topology-aware: Tonnage does not score nodes by the links of sGPUs yet",
    )


def test_underscores_and_dashes_are_both_fine_where_hami_has_underscores():
    assert parsed("--http-bind=:1", "--cert-file=a", "--key-file=b") == parsed(
        "--http_bind=:1", "--cert_file=a", "--key_file=b"
    )


def test_a_command_may_have_arguments_of_its_own():
    assert parsed("one", "--debug", "--", "two").debug is True


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--node-lock-timeout=5"], "'5' is no duration; write one such as 28s, 5m or 1h30m"),
        (["--http_bind=8080"], "'8080' is no address"),
        (["--http_bind=:70000"], "':70000' is no address"),
        (["--debug=maybe"], "'maybe' is neither true nor false"),
        (["--node-label-selector=gpu"], "'gpu' is no label"),
        (["--gpu-scheduler-policy=fast"], "'fast' is no policy; write binpack, spread"),
        (["--node-scheduler-policy=fast"], "'fast' is not one of 'binpack', 'spread'"),
        (["--default-mem=-1"], "-1 is not in the range"),
        (["--kube-burst=many"], "many"),
        (["--cert_file=a"], "--cert-file and --key-file belong together"),
        (["--client-ca-file=a"], "--client-ca-file needs --cert-file and --key-file"),
        (["--authorize-metrics"], "--authorize-metrics needs --cert-file and --key-file"),
        (["--peer-bind=:9443"], "--peer-bind, --peer-cert-file, --peer-key-file, --peer-ca-file belong together"),
        (["--peer-ca-file=a"], "belong together; give all, or none"),
        (["--placement=nobody"], "'nobody' is not one of"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_bad_values_are_refused_with_a_sentence(arguments, told):
    assert told in " ".join(refused(*arguments).split())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("28s", 28), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("100ms", 0.1), ("0", 0), ("+1m1s", 61), (".5s", 0.5)],
)
def test_durations_are_gos(text, seconds):
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1x", "1s ", "1 s", "1m-1s", "one", "1e3s"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is no duration"):
        duration(text)


@given(st.integers(0, 1000), st.integers(0, 59), st.integers(0, 59))
def test_durations_in_hours_minutes_and_seconds_add_up(hours, minutes, seconds):
    assert duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


def test_addresses_labels_and_truths():
    assert address("[::1]:443") == ("::1", 443)
    assert address("localhost:0") == ("localhost", 0)
    for wrong in ("::1:443", "[::1]", "host", "a:b", "", "[a]b:1"):
        with pytest.raises(ValueError, match="is no address"):
            address(wrong)
    assert labels("") == {}
    assert labels("a=b, c=,d=e=f") == {"a": "b", "c": "", "d": "e=f"}
    assert [truth(text) for text in ("1", "T", "true", "0", "F", "False")] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("given", [[], ["--leader-elect-resource-name=x"], ["--leader-elect-resource-namespace=x"]])
def test_replicas_need_to_know_their_lease(given):
    assert "those of the lease in the leaderElection" in refused("--leader-elect", *given)


# -- what help and warnings say


def test_help_shows_one_spelling_of_each_flag_and_what_has_no_effect():
    text = " ".join(run("--help")[1].output.split())
    assert "--http-bind HOST:PORT" in text
    assert "_bind" not in text
    assert "_file" not in text
    assert "--node-lock-timeout DURATION No effect: a lock is taken over as soon as its pod is done or gone." in text
    assert "--kube-timeout NUMBER No effect: requests have time-outs of their own." in text


def test_a_flag_without_effect_is_named_when_it_is_given_with_its_default_too():
    assert parsed("--node-lock-timeout=5m").warnings == (
        "--node-lock-timeout has no effect: a lock is taken over as soon as its pod is done or gone",
    )
    assert parsed("--profiling=false").warnings == ()
    assert parsed().warnings == ()


@pytest.mark.parametrize(
    ("arguments", "limit", "warnings"),
    [
        ((), (None, None), ()),
        (("--kube-qps=50", "--kube-burst=100"), (50, 100), ()),
        (("--kube-qps=5", "--kube-burst=10"), (5, 10), ("--kube-qps is 5: ", "--kube-burst is 10: ")),
        (("--kube-qps=49.5",), (49.5, None), ("--kube-qps is 49.5: ",)),
        (("--kube-burst=100",), (None, 100), ("--kube-burst has no effect without --kube-qps",)),
    ],
)
def test_requests_are_limited_only_if_that_is_asked_for_and_a_tight_limit_is_warned_about(arguments, limit, warnings):
    options = parsed(*arguments)
    assert (options.kube_qps, options.kube_burst) == limit
    assert len(options.warnings) == len(warnings)
    assert all(said.startswith(begin) for said, begin in zip(options.warnings, warnings, strict=True))
