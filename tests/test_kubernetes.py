"""What the Kubernetes manifests promise: valid, no root, no key on a master, no page exposed."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from options import ENV_PREFIX, OPTION_NAMES

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "kubernetes"
OLDEST, NEWEST = "1.30", "1.37"
STOP_TIMEOUT_S = 30


def objects(path):
    """The objects of a manifest."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


FILES = sorted(p for p in FOLDER.rglob("*.yaml") if p.name != "kustomization.yaml")
OBJECTS = [(path.relative_to(FOLDER).as_posix(), one) for path in FILES for one in objects(path)]
PODS = {
    name: one["spec"]["template"] for name, one in OBJECTS if one["kind"] in ("Deployment", "Job")
}
MASTERS = ("ladder/master.yaml", "page/master.yaml")
WORKERS = "base/workers.yaml"
SPECS = {name: pod["spec"] for name, pod in PODS.items()}
CONTAINERS = {name: spec["containers"][0] for name, spec in SPECS.items()}


def one_of(kind):
    """The only object of a kind."""
    (found,) = [one for _, one in OBJECTS if one["kind"] == kind]
    return found


def built(folder):
    """The files that a kustomization applies, and its images."""
    wanted = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    files, images = [], wanted.get("images", [])
    for name in wanted["resources"]:
        path = (folder / name).resolve()
        more, _ = built(path) if path.is_dir() else ([path], [])
        files += more
    return files, images


def test_there_is_a_master_of_each_kind_and_workers():
    """The tests below look at every one of these."""
    assert {*MASTERS, WORKERS} == set(PODS)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize(("name", "one"), OBJECTS)
def test_each_object_is_what_its_schema_says(name, one, version):
    """Strict: a field that Kubernetes does not know is an error here, there it is dropped."""
    kubernetes_validate.validate(one, version, strict=True)


def test_a_wrong_field_would_be_seen():
    """The schema check itself can fail."""
    wrong = {**one_of("Service"), "specs": {}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, NEWEST, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_pods_keep_to_the_restricted_standard(name):
    """Pod Security "restricted", and a file system that cannot be written."""
    pod, container = SPECS[name]["securityContext"], CONTAINERS[name]["securityContext"]

    assert pod["runAsNonRoot"] is True
    assert pod["runAsUser"] > 0
    assert {"type": "RuntimeDefault"} == pod["seccompProfile"]
    assert {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    } == container


@pytest.mark.parametrize("name", PODS)
def test_pods_get_nothing_of_the_cluster(name):
    """No token, no host, and no variables of services, which would look like our options."""
    spec = SPECS[name]

    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


@pytest.mark.parametrize("name", PODS)
def test_what_is_written_has_a_volume(name):
    """The root file system is read-only: results and temporary files need a place."""
    mounted = {mount["mountPath"] for mount in CONTAINERS[name]["volumeMounts"]}

    assert {"/app/runs", "/tmp"} <= mounted


@pytest.mark.parametrize("name", PODS)
def test_memory_is_limited_and_the_cpu_is_not(name):
    """A limit of the CPU stops a process in mid-stream, which looks like the server's pause."""
    resources = CONTAINERS[name]["resources"]

    assert {"cpu", "memory"} == resources["requests"].keys()
    assert {"memory"} == resources["limits"].keys()


@pytest.mark.parametrize("name", PODS)
def test_a_stop_leaves_time_for_the_drain(name):
    """The pod is killed after the grace period; the drain comes first."""
    assert SPECS[name]["terminationGracePeriodSeconds"] > STOP_TIMEOUT_S


def test_the_key_is_a_file_of_the_workers_only():
    """Locust shows a master's options in its page, so a master never holds a key."""
    holders = [name for name, pod in PODS.items() if "api-key" in yaml.safe_dump(pod)]
    paths = [one["value"] for one in CONTAINERS[WORKERS]["env"]]
    (key,) = [volume for volume in SPECS[WORKERS]["volumes"] if volume["name"] == "key"]

    assert [WORKERS] == holders
    assert ["/run/secrets/swarmgauge/api-key"] == paths
    assert one_of("Secret")["metadata"]["name"] == key["secret"]["secretName"]
    assert 0o440 == key["secret"]["defaultMode"]


def test_the_secret_is_a_template():
    """It holds no value, and applying the rest never overwrites the one that does."""
    applied = [path for name in ("page", "ladder") for path in built(FOLDER / name)[0]]

    assert {"api-key": ""} == one_of("Secret")["stringData"]
    assert applied
    assert FOLDER / "secret.example.yaml" not in applied


@pytest.mark.parametrize("name", ["page", "ladder"])
def test_a_kustomization_applies_workers_one_master_and_the_image(name):
    """Everything but the template and the other master, and the image's name is replaced."""
    files, images = built(FOLDER / name)
    wanted = {p for p in FILES if p.parent.name in ("base", name)}

    assert wanted == set(files)
    assert {one["image"] for one in CONTAINERS.values()} == {one["name"] for one in images}


def test_the_page_is_exposed_nowhere():
    """It has no login: it listens on the pod's loopback, and no port of it is named."""
    command = " ".join(CONTAINERS["page/master.yaml"]["args"])
    ports = [port["port"] for port in one_of("Service")["spec"]["ports"]]

    assert "--web-host 127.0.0.1" in command
    assert [5557] == ports
    assert "type" not in one_of("Service")["spec"], "ClusterIP"


def test_workers_find_the_master_and_nobody_else_does():
    """Whoever connects to Locust's port is sent the options of the run."""
    service, worker = one_of("Service"), PODS[WORKERS]["metadata"]["labels"]
    rules = {
        one["metadata"]["name"]: one["spec"] for _, one in OBJECTS if one["kind"] == "NetworkPolicy"
    }
    (rule,) = rules["swarmgauge-master"]["ingress"]

    for name in MASTERS:
        labels = PODS[name]["metadata"]["labels"]
        assert service["spec"]["selector"] == labels
        assert rules["swarmgauge-master"]["podSelector"]["matchLabels"] == labels
        assert "0.0.0.0" in CONTAINERS[name]["args"], "--master-bind-host"
    assert service["metadata"]["name"] in CONTAINERS[WORKERS]["args"]
    assert [{"podSelector": {"matchLabels": worker}}] == rule["from"]
    assert [{"port": 5557}] == rule["ports"]
    assert "ingress" not in rules["swarmgauge-worker"], "nothing reaches a worker"


def test_the_ladder_waits_for_as_many_workers_as_there_are():
    """A number that differs would wait for ever, or start too early."""
    args = CONTAINERS["ladder/master.yaml"]["args"]
    (workers,) = [one for name, one in OBJECTS if name == WORKERS]

    assert str(workers["spec"]["replicas"]) == args[args.index("--expect-workers") + 1]


def test_a_run_is_not_repeated_by_itself():
    """Its exit code is an answer, and a load test is not sent twice unasked."""
    assert 0 == one_of("Job")["spec"]["backoffLimit"]
    assert "Never" == SPECS["ladder/master.yaml"]["restartPolicy"]


def test_results_outlive_the_master():
    """Both masters write to the claim."""
    claim = one_of("PersistentVolumeClaim")["metadata"]["name"]

    for name in MASTERS:
        claims = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in SPECS[name]["volumes"]
            if "persistentVolumeClaim" in volume
        ]
        assert [claim] == claims


def test_options_are_options():
    """Names that the suite does not know would be ignored."""
    names = {ENV_PREFIX + name.upper() for name in OPTION_NAMES} | {"LOCUST_HOST"}

    assert one_of("ConfigMap")["data"].keys() <= names
    assert all(isinstance(value, str) for value in one_of("ConfigMap")["data"].values())


def test_the_page_is_probed_from_inside():
    """The kubelet cannot reach the pod's loopback, so each probe is a command."""
    container = CONTAINERS["page/master.yaml"]

    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert "127.0.0.1" in container[probe]["exec"]["command"][2], probe
