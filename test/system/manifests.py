# SPDX-License-Identifier: BSD-3-Clause
"""Kubernetes manifests without Kubernetes: a strict check of their fields against the API's models in Debian's
python3-kubernetes, which are generated from Kubernetes' OpenAPI description; and podman options for a container of a pod."""
import yaml
from kubernetes import client

# What the restricted Pod Security Standard asks of a container whose pod has runAsNonRoot and a seccomp profile.
LOCKED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def problems(value, kind, where):
    """What is wrong with a value that the API describes as kind, a line each."""
    if kind.startswith("list["):
        if not isinstance(value, list):
            return [f"{where}: not a list"]
        return [line for i, item in enumerate(value) for line in problems(item, kind[5:-1], f"{where}[{i}]")]
    if kind.startswith("dict("):
        if not isinstance(value, dict):
            return [f"{where}: not a map"]
        return [line for key, item in value.items() for line in problems(item, kind[5:-1].split(", ")[1], f"{where}.{key}")]
    simple = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}.get(kind)
    if simple:
        # resources: Kubernetes takes a number for a quantity, which is text
        right = isinstance(value, simple) and (kind == "bool" or not isinstance(value, bool)) or ".limits." in where
        return [] if right else [f"{where}: {value!r} is not {kind}"]
    if not isinstance(value, dict):
        return [f"{where}: not a {kind}"]
    model = getattr(client, kind)
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    found = [f"{where}: {kind} has no field {name}" for name in value if name not in names]
    for name, attribute in names.items():
        if name in value:
            found += problems(value[name], model.openapi_types[attribute], f"{where}.{name}")
    try:  # required fields, and values of enumerations
        model(**{names[name]: item for name, item in value.items() if name in names})
    except ValueError as why:
        found.append(f"{where}: {why}")
    return found


def check(document):
    """What is wrong with a manifest, a line each."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = f"{version.capitalize()}{document['kind']}"
    if not hasattr(client, kind) or group not in ("", "apps", "batch"):
        return [f"no {document['kind']} in {document['apiVersion']}"]
    found = problems(document, kind, document["kind"])
    pod = pod_of(document)
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    mounted = {mount["name"] for container in pod.get("containers", []) for mount in container.get("volumeMounts", [])}
    if volumes != mounted:
        found.append(f"volumes {sorted(volumes ^ mounted)} are not both defined and mounted")
    if document["kind"] == "DaemonSet":
        labels = document["spec"]["template"]["metadata"]["labels"]
        if not document["spec"]["selector"]["matchLabels"].items() <= labels.items():
            found.append("the selector does not select the template's pods")
    return found


def pod_of(document):
    """The pod's specification in a manifest; empty if it has none."""
    spec = document.get("spec", {})
    return spec if document["kind"] == "Pod" else spec.get("template", {}).get("spec", {})


def podman_options(pod, container, profile, tmp):
    """Options of `podman run` for a container of a pod: security, host namespaces, folders of the host. profile: a file for the
    seccomp profile RuntimeDefault; tmp: a folder for each emptyDir."""
    security = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"} and security["capabilities"]["drop"] == ["ALL"], security
    options = ["--user", f"{security['runAsUser']}:{security['runAsUser']}", "--security-opt", f"seccomp={profile}",
               "--cap-drop", "all", *(f"--cap-add={cap}" for cap in security["capabilities"].get("add", []))]
    if not security["allowPrivilegeEscalation"]:
        options += ["--security-opt", "no-new-privileges"]
    if security["readOnlyRootFilesystem"]:
        options += ["--read-only", "--read-only-tmpfs=false"]
    if pod.get("hostPID"):
        options += ["--pid", "host"]
    for mount in container.get("volumeMounts", []):
        source = next(volume for volume in pod["volumes"] if volume["name"] == mount["name"])
        options.append(f"-v={source['hostPath']['path'] if 'hostPath' in source else tmp}:{mount['mountPath']}")
    return options
