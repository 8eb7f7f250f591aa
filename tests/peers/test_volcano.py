"""Volcano's suites: reports of Ginkgo, webhooks of its chart, and the command line."""

import pytest

from peers.__main__ import main
from peers.volcano.cluster import webhook_configurations
from peers.volcano.suites import SUITES, outcomes_of

TEMPLATE = """\
{{- if .Values.custom.admission_enable }}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: volcano-admission-service-jobs-validate
  {{- if .Values.custom.common_labels }}
  labels:
    {{- toYaml .Values.custom.common_labels | nindent 4 }}
  {{- end }}
webhooks:
  - clientConfig:
      service:
        name: {{ .Release.Name }}-admission-service
        namespace: {{ .Release.Namespace }}
        path: /jobs/validate
    name: validatejob.volcano.sh
    namespaceSelector:
      matchExpressions:
        - values:
            - {{ .Release.Namespace }}
{{- end }}
"""


def test_only_tests_that_ran_have_an_outcome() -> None:
    specs = [
        {"LeafNodeType": "BeforeSuite", "State": "passed", "LeafNodeText": ""},
        {"LeafNodeType": "It", "State": "passed", "ContainerHierarchyTexts": ["Jobs"], "LeafNodeText": "run"},
        {"LeafNodeType": "It", "State": "skipped", "ContainerHierarchyTexts": ["Jobs"], "LeafNodeText": "wait"},
        {
            "LeafNodeType": "It",
            "State": "failed",
            "ContainerHierarchyTexts": None,
            "LeafNodeText": "end",
            "Failure": {"Message": "Expected\n  <nil>", "Location": {"FileName": "/x/job.go", "LineNumber": 7}},
        },
    ]
    found = outcomes_of("jobp", [{"SpecReports": specs}, {"SpecReports": None}])
    assert {name: outcome.holds for name, outcome in found.items()} == {"jobp: Jobs run": True, "jobp: end": False}
    assert found["jobp: end"].detail == "job.go:7: Expected <nil>"


def test_webhooks_of_the_chart_get_an_address() -> None:
    (made,) = webhook_configurations(TEMPLATE, "https://127.0.0.1:1234")
    assert made["metadata"] == {"name": "volcano-admission-service-jobs-validate"}
    (webhook,) = made["webhooks"]
    assert webhook["clientConfig"] == {"url": "https://127.0.0.1:1234/jobs/validate"}
    assert webhook["namespaceSelector"]["matchExpressions"] == [{"values": ["volcano-system"]}]


def test_suites_have_names_of_their_own() -> None:
    assert len({suite.name for suite in SUITES}) == len(SUITES)


def test_without_a_peer_the_command_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["peers"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "python -m peers.build" in capsys.readouterr().err
