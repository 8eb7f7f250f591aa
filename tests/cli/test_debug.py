"""`tonnage debug` where there is no cluster; what it does on one is tested under tests/e2e."""

from pathlib import Path

from tests.cli.command import tonnage


def test_a_kubeconfig_that_is_not_there_is_bad_input() -> None:
    done = tonnage("debug", "compare", "--kubeconfig", "/missing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/missing: there is no such file" in done.stderr


def test_a_server_that_does_not_answer_is_a_failure_at_work(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        """
        current-context: c
        contexts: [{name: c, context: {cluster: c, user: c}}]
        clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
        users: [{name: c, user: {token: t}}]
        """
    )
    done = tonnage("debug", "compare", "--kubeconfig", config)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Cannot connect to 127.0.0.1:9" in done.stderr
