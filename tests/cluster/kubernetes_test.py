"""The manifests of examples/kubernetes against the published API, as Debian's python3-kubernetes has it, and that of MPIJob."""
import copy
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

try:
    import kubernetes.client.models as models
    import yaml
except ImportError:
    models = None

from cluster import LIMIT, SOURCE

FORETIME = pathlib.Path(os.environ.get("FORETIME", SOURCE / "build/release/cli/foretime")).resolve()
FOLDER = SOURCE / "examples/kubernetes"

KINDS = {
    ("v1", "ConfigMap"): "V1ConfigMap",
    ("apps/v1", "Deployment"): "V1Deployment",
    ("batch/v1", "Job"): "V1Job",
    ("kubeflow.org/v2beta1", "MPIJob"): "MPIJob",
}
# As kubeflow/mpi-operator publishes them in pkg/apis/kubeflow/v2beta1/swagger.json: fields that must be there, and types.
MPI = {
    "MPIJob": (
        ["apiVersion", "kind", "metadata", "spec"],
        {"apiVersion": "str", "kind": "str", "metadata": "V1ObjectMeta", "spec": "MPIJobSpec"},
    ),
    "MPIJobSpec": (
        ["mpiReplicaSpecs"],
        {
            "slotsPerWorker": "int",
            "mpiImplementation": "str",
            "sshAuthMountPath": "str",
            "runPolicy": "RunPolicy",
            "mpiReplicaSpecs": "dict(str, ReplicaSpec)",
        },
    ),
    "RunPolicy": (
        [],
        {
            "activeDeadlineSeconds": "int",
            "backoffLimit": "int",
            "cleanPodPolicy": "str",
            "ttlSecondsAfterFinished": "int",
        },
    ),
    "ReplicaSpec": (["template"], {"replicas": "int", "restartPolicy": "str", "template": "V1PodTemplateSpec"}),
}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}


def faults(value, kind, where):
    """One line for each place where a value is not what the API says of its type."""
    if kind == "object":
        return
    if kind.startswith("list["):
        if not isinstance(value, list):
            yield f"{where}: {value!r}, expected a list"
            return
        for i, each in enumerate(value):
            yield from faults(each, kind[5:-1], f"{where}[{i}]")
    elif kind.startswith("dict("):
        if not isinstance(value, dict):
            yield f"{where}: {value!r}, expected a mapping"
            return
        for name, each in value.items():
            yield from faults(each, kind[5:-1].split(", ", 1)[1], f"{where}.{name}")
    elif kind in PLAIN:
        if not isinstance(value, PLAIN[kind]) or (kind != "bool" and isinstance(value, bool)):
            yield f"{where}: {value!r}, expected {kind}"
    elif not isinstance(value, dict):
        yield f"{where}: {value!r}, expected {kind}"
    else:
        if kind in MPI:
            required, types = MPI[kind]
        else:
            model = getattr(models, kind)
            types = {name: model.openapi_types[attribute] for attribute, name in model.attribute_map.items()}
            required = [name for attribute, name in model.attribute_map.items() if is_required(model, attribute)]
        yield from (f"{where}.{name}: is missing" for name in required if name not in value)
        for name, each in value.items():
            if name not in types:
                yield f"{where}.{name}: {kind} has no such field"
            else:
                yield from faults(each, types[name], f"{where}.{name}")


def is_required(model, attribute):
    """Whether the published client refuses None for it."""
    probe = model.__new__(model)
    try:
        model.__init__(probe, **{name: None for name in model.openapi_types})
    except ValueError as error:
        if f"`{attribute}`" in str(error):
            return True
    probe.local_vars_configuration = models.V1Pod().local_vars_configuration
    try:
        setattr(probe, attribute, None)
    except ValueError:
        return True
    return False


def faults_of(manifest):
    kind = KINDS.get((manifest.get("apiVersion"), manifest.get("kind")))
    if kind is None:
        yield f"{manifest.get('apiVersion')} {manifest.get('kind')}: is not among {sorted(KINDS)}"
        return
    found = list(faults(manifest, kind, manifest["kind"]))
    yield from found
    if found:
        return
    for pod in pods(manifest):
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            mounted = [mount["name"] for mount in container.get("volumeMounts", [])]
            yield from (f"volumeMounts: there is no volume {name}" for name in mounted if name not in volumes)


def pods(manifest):
    if manifest["kind"] in ("Deployment", "Job"):
        return [manifest["spec"]["template"]["spec"]]
    if manifest["kind"] == "MPIJob":
        return [each["template"]["spec"] for each in manifest["spec"]["mpiReplicaSpecs"].values()]
    return []


@unittest.skipIf(models is None, "needs python3-kubernetes and python3-yaml")
class KubernetesTest(unittest.TestCase):
    def setUp(self):
        self.manifests = [
            (path.name, each) for path in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())
        ]

    def of_kind(self, kind):
        return [manifest for _, manifest in self.manifests if manifest["kind"] == kind]

    # Promise kubernetes/manifests: `kubectl apply -f examples/kubernetes/…`: fields and types of the published API
    # only; no cluster has seen them
    def test_manifests_are_what_the_api_publishes(self):
        self.assertEqual(
            sorted(manifest["kind"] for _, manifest in self.manifests), ["ConfigMap", "Deployment", "Job", "MPIJob"]
        )
        for name, manifest in self.manifests:
            self.assertEqual(list(faults_of(manifest)), [], name)

    def test_the_check_finds_what_is_wrong(self):
        deployment, job = self.of_kind("Deployment")[0], self.of_kind("MPIJob")[0]

        def broken(manifest, change):
            copied = copy.deepcopy(manifest)
            change(copied)
            return list(faults_of(copied))

        def pod(manifest):
            return pods(manifest)[0]

        for manifest, change, said in (
            (deployment, lambda m: pod(m).update(terminationGracePeriod=3), "V1PodSpec has no such field"),
            (deployment, lambda m: pod(m).update(terminationGracePeriodSeconds="660"), "'660', expected int"),
            (deployment, lambda m: pod(m)["containers"][0].pop("name"), "name: is missing"),
            (deployment, lambda m: pod(m)["containers"][0]["resources"]["requests"].update(cpu=4), "4, expected str"),
            (deployment, lambda m: m["spec"].pop("selector"), "selector: is missing"),
            (deployment, lambda m: pod(m)["volumes"].pop(0), "there is no volume redis"),
            (deployment, lambda m: m.update(apiVersion="apps/v1beta1"), "is not among"),
            (job, lambda m: m["spec"].update(slots=4), "MPIJobSpec has no such field"),
            (job, lambda m: m["spec"].update(mpiReplicaSpecs=[]), "expected a mapping"),
            (job, lambda m: pod(m)["containers"][0].update(comand=[]), "V1Container has no such field"),
        ):
            found = broken(manifest, change)
            self.assertTrue(any(said in line for line in found), f"{said}: {found}")

    # Promise kubernetes/manifests-rights: time to drain, rights, the password as a file
    def test_agents_have_time_to_drain_and_no_more_rights_than_they_need(self):
        names = {manifest["metadata"]["name"] for manifest in self.of_kind("ConfigMap")}
        for manifest in self.of_kind("Deployment") + self.of_kind("Job"):
            (pod,) = pods(manifest)
            (container,) = pod["containers"]
            drain = float(container["command"][container["command"].index("--drain-seconds") + 1])
            self.assertGreater(pod["terminationGracePeriodSeconds"], drain + 30, "and to end")
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
            self.assertFalse(pod["automountServiceAccountToken"])
            self.assertLessEqual({each["configMapRef"]["name"] for each in container["envFrom"]}, names)
            written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
            self.assertEqual(written, {"/runs", "/tmp", "/dev/shm"})
            self.assertNotIn(
                "FORETIME_REDIS_PASSWORD:", yaml.safe_dump(manifest), "a file that may change, not a variable"
            )
        (deployment,) = self.of_kind("Deployment")
        self.assertLessEqual(
            deployment["spec"]["selector"]["matchLabels"].items(),
            deployment["spec"]["template"]["metadata"]["labels"].items(),
        )
        self.assertEqual(
            pods(deployment)[0]["containers"][0]["readinessProbe"]["exec"]["command"], ["foretime", "queue"]
        )

    # Promise kubernetes/manifests-commands: their commands are understood
    def test_their_commands_are_those_of_this_foretime(self):
        for manifest in self.of_kind("Deployment") + self.of_kind("Job"):
            command = [
                {"/data": str(SOURCE), "$(CPUS)": "4"}.get(word, word)
                for word in pods(manifest)[0]["containers"][0]["command"]
            ]
            settings = dict(self.of_kind("ConfigMap")[0]["data"], FORETIME_REDIS="redis://127.0.0.1:1")
            with tempfile.TemporaryDirectory() as folder:
                password = pathlib.Path(folder) / "password"
                password.write_text("secret")
                settings |= {
                    "FORETIME_RUNS": folder,
                    "FORETIME_REDIS_PASSWORD_FILE": str(password),
                    "PATH": os.environ["PATH"],
                }
                self.run_and_expect(
                    [*command[1:], "--until-empty"][: None if "--until-empty" not in command else -1], settings
                )
                self.run_and_expect(["queue"], settings)

    def run_and_expect(self, words, environment):
        """All of its words are understood, and there is no Redis."""
        done = subprocess.run([FORETIME, *words], env=environment, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 4, f"{words}\n{done.stdout}\n{done.stderr}")
        self.assertIn("127.0.0.1:1", done.stderr)

    def test_the_training_has_a_rank_for_each_slot_and_settings_that_exist(self):
        spec = self.of_kind("MPIJob")[0]["spec"]
        launcher = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
        self.assertEqual(
            int(launcher[launcher.index("-n") + 1]),
            spec["slotsPerWorker"] * spec["mpiReplicaSpecs"]["Worker"]["replicas"],
        )
        overrides = [word for word in launcher if re.fullmatch(r"[a-z_]+\.[a-z_]+=.*", word)]
        self.assertGreaterEqual(len(overrides), 3)
        done = subprocess.run(
            [FORETIME, "config", SOURCE / "configs/quickstart.yaml", *overrides],
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
