import io
import json
import os

import pytest

from tests.manifests.texts import NODE_YAML, POD_YAML, listed, names, node, pod, read
from tonnage.manifests.read import ManifestError, read_files


def test_several_files_and_standard_input(tmp_path):
    (tmp_path / "nodes.yaml").write_text(NODE_YAML)
    (tmp_path / "pods.json").write_text(json.dumps(listed(pod("a"))))
    stdin = io.BytesIO(POD_YAML.encode())
    manifests = read_files([str(tmp_path / "nodes.yaml"), "-", str(tmp_path / "pods.json")], stdin)
    assert names(manifests) == ["gpu-07", "team-a/train-0", "team-a/a"]
    assert manifests.problems == []


def test_problems_name_their_file(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(POD_YAML)
    bad.write_text(POD_YAML.replace("priority: 100", "priority: high"))
    manifests = read_files([str(good), str(bad)])
    assert names(manifests) == ["team-a/train-0"]
    assert manifests.problems[0].position == f"{bad} line 18"
    manifests = read_files(["-"], io.BytesIO(bad.read_bytes()))
    assert manifests.problems[0].position == "standard input line 18"


def test_the_same_object_in_two_files(tmp_path):
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text(NODE_YAML.replace("1000Gi", f"{len(name)}Gi" if name == "one.yaml" else "2Gi"))
    manifests = read_files([str(tmp_path / "one.yaml"), str(tmp_path / "two.yaml")])
    assert manifests.nodes[0].status.allocatable["memory"] == "2Gi"
    assert manifests.problems[0].position.startswith(f"{tmp_path / 'two.yaml'} line ")


@pytest.mark.parametrize("text", ["", " \n\n", "# nothing\n", "---\n---\n", "null", "\ufeff"])
def test_a_file_without_objects_is_refused(text):
    with pytest.raises(ManifestError, match="no Kubernetes objects in FILE"):
        read(text)


def test_a_missing_file():
    with pytest.raises(ManifestError, match=r"/nowhere/x.yaml: there is no such file; check the path"):
        read_files(["/nowhere/x.yaml"])


def test_a_folder_is_its_manifests_in_the_order_of_names(tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(pod("b")))
    (tmp_path / "a.yml").write_text(POD_YAML)
    (tmp_path / "nodes.yaml").write_text(NODE_YAML)
    (tmp_path / "README.md").write_text("no manifest")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text(POD_YAML.replace("train-0", "train-1"))
    flat = read_files([str(tmp_path)])
    assert names(flat) == ["gpu-07", "team-a/train-0", "team-a/b"]
    deep = read_files([str(tmp_path)], recursive=True)
    assert names(deep) == ["gpu-07", "team-a/train-0", "team-a/b", "team-a/train-1"]


def test_a_folder_without_manifests(tmp_path):
    (tmp_path / "README.md").write_text("no manifest")
    with pytest.raises(ManifestError, match=r"the folder has no files that end in \.json, \.yaml, \.yml"):
        read_files([str(tmp_path)])


def test_a_configuration_among_manifests_is_told_apart(tmp_path):
    (tmp_path / "config.yaml").write_text('actions: "allocate"\ntiers: []\n')
    (tmp_path / "nodes.yaml").write_text(NODE_YAML)
    manifests = read_files([str(tmp_path)])
    assert [problem.message for problem in manifests.problems] == [
        "this is the configuration of a scheduler; give it with --config"
    ]


def test_a_file_without_permission(tmp_path, monkeypatch):
    path = tmp_path / "secret.yaml"
    path.write_text(POD_YAML)
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything

        def refuse(*_):
            raise PermissionError

        monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ManifestError, match="no permission"):
        read_files([str(path)])


def test_a_path_that_is_no_file(tmp_path):
    path = tmp_path / "file"
    path.write_text(POD_YAML)
    with pytest.raises(ManifestError, match="cannot be read"):
        read_files([f"{path}/below"])
    with pytest.raises(ManifestError, match="cannot be read"):
        read_files(["a\0b"])


def test_standard_input_twice():
    with pytest.raises(ManifestError, match="only once"):
        read_files(["-", "-"], io.BytesIO(b""))


def test_byte_order_marks():
    text = json.dumps(node())
    assert names(read(b"\xef\xbb\xbf" + text.encode())) == ["gpu-07"]
    assert names(read(text.encode("utf-16"))) == ["gpu-07"]
    assert names(read(NODE_YAML.encode("utf-16"))) == ["gpu-07"]
    with pytest.raises(ManifestError, match="broken UTF-16"):
        read(b"\xff\xfe{")


def test_bytes_that_are_no_text():
    with pytest.raises(ManifestError, match="FILE line 2 column 7: not UTF-8"):
        read(b"kind: Pod\nname: \xff\n")
