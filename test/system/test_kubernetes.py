#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""config/kubernetes without Kubernetes: the manifests' fields; the device plugin with a kubelet of this test; and containers of
podman in place of pods, with the manifests' security options and exactly what the plugin tells the kubelet."""
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import container_kit
import lib
import perftool

PACKAGES = "python3-grpcio python3-protobuf protobuf-compiler python3-kubernetes python3-yaml"
FOLDER = lib.HERE.parent.parent / "config/kubernetes"
PLUGIN = FOLDER / "uroce-device-plugin"
MANIFESTS = ("daemonset.yaml", "perftest.yaml")
ADDRESS = "10.9.0.1"
SHARES = 3


def modules():
    """gRPC, the API's messages by protoc, and manifests.py, all of which need PACKAGES."""
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    made = lib.tmpdir()
    lib.sh("protoc", f"--proto_path={lib.HERE}", f"--python_out={made}", "deviceplugin.proto")
    sys.path.insert(0, str(made))
    global grpc, api, manifests
    import deviceplugin_pb2 as api
    import grpc
    import manifests


class Kubelet:
    """Serves registrations in its folder, as a kubelet does, connects back and records the lists that it gets."""

    def __init__(self, folder, refuse=None):
        for left in folder.iterdir():  # a kubelet that starts empties its folder
            left.unlink()
        self.folder, self.refuse = folder, refuse
        self.requests, self.lists, self.channels = {}, {}, []
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor())
        register = grpc.unary_unary_rpc_method_handler(self.register, api.RegisterRequest.FromString,
                                                       api.Empty.SerializeToString)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.Registration",
                                                                                   {"Register": register}),))
        self.server.add_insecure_port(f"unix:{folder}/kubelet.sock")
        self.server.start()

    def register(self, request, context):
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse)
        channel = grpc.insecure_channel(f"unix:{self.folder}/{request.endpoint}")
        self.channels.append(channel)
        self.requests[request.resource_name] = request
        threading.Thread(target=self.watch, args=(request.resource_name, channel), daemon=True).start()
        return api.Empty()

    def watch(self, name, channel):
        stream = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch", api.Empty.SerializeToString,
                                      api.ListAndWatchResponse.FromString)
        with contextlib.suppress(grpc.RpcError):
            for answer in stream(api.Empty(), wait_for_ready=True):
                self.lists[name] = [(device.ID, device.health) for device in answer.devices]

    def call(self, name, rpc, request, answer):
        with grpc.insecure_channel(f"unix:{self.folder}/{self.requests[name].endpoint}") as channel:
            return channel.unary_unary(f"/v1beta1.DevicePlugin/{rpc}", type(request).SerializeToString, answer.FromString)(
                request, timeout=lib.processes.HANGS_S)

    def allocate(self, name, *ids):
        request = api.AllocateRequest(container_requests=[{"devices_ids": ids}])
        return self.call(name, "Allocate", request, api.AllocateResponse).container_responses[0]

    def health(self, name):
        """The health of all of a resource's devices, once they agree and are as many as there are shares."""
        known = self.lists.get(name, [])
        return known[0][1] if len(known) == SHARES and len({health for _, health in known}) == 1 else None

    def stop(self):
        self.server.stop(0).wait()
        for channel in self.channels:
            channel.close()
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "kubelet.sock").unlink()


def injected(answer):
    """podman's options for what Allocate returned."""
    assert not answer.devices and not answer.annotations, answer
    return [*(f"--device={device.name}" for device in answer.cdi_devices), *(f"--env={k}={v}" for k, v in answer.envs.items()),
            *(f"-v={m.host_path}:{m.container_path}{':ro' if m.read_only else ''}" for m in answer.mounts)]


class Node:
    """The folders of the host in the DaemonSet, empty in this mount namespace, and its two containers."""

    def __init__(self):
        self.daemonset = next(d for d in manifests.documents(FOLDER / "daemonset.yaml") if d["kind"] == "DaemonSet")
        self.pod = manifests.pod_of(self.daemonset)
        self.containers = {container["name"]: container for container in self.pod["containers"]}
        for volume in self.pod["volumes"]:
            if "hostPath" in volume:
                container_kit.empty(volume["hostPath"]["path"])
        self.podman = container_kit.Podman("runc")
        self.profile = container_kit.docker_profile()
        self.programs = lib.tmpdir() / "opt"
        shutil.copytree(lib.public_copy(), self.programs)
        shutil.copy(PLUGIN, self.programs)
        self.programs.parent.chmod(0o755)
        self.tmp = lib.tmpdir()
        self.ns, other = lib.netns(), lib.netns()
        lib.veth(self.ns, f"{ADDRESS}/24", other, "10.9.0.2/24", 4200)
        lib.sh("ip", "-n", self.ns, "route", "add", "default", "dev", "eth0")

    def start(self, name, *more):
        """Starts a container of the DaemonSet as its manifest says, with this machine's files for the image."""
        container = self.containers[name]
        path = "PATH=/opt:/opt/app/uroced:/opt/app/uroce-run:/opt/app/urocectl:/usr/bin:/usr/sbin"
        assert self.pod["hostNetwork"]
        return self.podman.spawn(*manifests.podman_options(self.pod, container, self.profile, self.tmp), *container_kit.usr(),
                                 f"-v={self.programs}:/opt:ro", "--network", f"ns:/run/netns/{self.ns}", "--env", path, "--rootfs",
                                 container_kit.skeleton(), *container["command"], *more)[0]

    def daemon(self):
        daemon = self.start("uroced")
        lib.until("uroced is ready", lambda: "uroced: ready" in daemon.output() or daemon.poll() is not None)
        assert "device uroce0 on udp:eth0" in daemon.output(), daemon.output()
        return daemon

    def plugin(self, *more):
        return self.start("device-plugin", "--shares", SHARES, "--interval", "0.2", *more)

    def user_pod(self):
        """Options of the example's pod."""
        server = next(d for d in manifests.documents(FOLDER / "perftest.yaml") if d["kind"] == "Pod")
        return manifests.podman_options(server["spec"], server["spec"]["containers"][0], self.profile, self.tmp)

    def transfer(self, server, client):
        """Unmodified programs of an image without uroce, in two pods: by TCP and by rdma_cm."""
        tool = ("ib_write_bw", "-d", "uroce0", "-x", "1", "-F", "-n", "500", *perftool.PATIENT)
        port = lib.tcp_port()
        one, name = self.podman.spawn("--network", "none", *self.user_pod(), *server, "rdma", *tool, "-p", port)
        lib.until("the server listens", lambda: container_kit.listening(one, self.podman, name, port), every=0.5)
        said = self.podman.run("--network", f"container:{name}", *self.user_pod(), *client, "rdma", *tool, "-p", port, "127.0.0.1")
        one.result(60)
        assert "BW average" in said, said
        one, name = self.podman.spawn("--network", "none", *self.user_pod(), *server, "rdma", "rping", "-s", "-a", ADDRESS, "-C", "5")
        lib.until("rping listens", lambda: one.poll() is not None or "LISTEN" in lib.sh(
            lib.UROCECTL, "--socket", "/run/uroce/uroced.sock", "show", "cm"))
        said = self.podman.run("--network", "none", *self.user_pod(), *client, "rdma", "rping", "-c", "-a", ADDRESS, "-C", "5", "-v")
        one.result(60)
        assert said.count("ping data: ") == 5, said


def check_manifests():
    for name in MANIFESTS:
        for document in manifests.documents(FOLDER / name):
            found = manifests.check(document)
            assert not found, (name, found)
    # the check finds what it is for
    for wrong, what in (({"hostNetworks": True}, "no field"), ({"hostNetwork": "yes"}, "is not bool"),
                        ({"volumes": [{"name": "unused", "emptyDir": {}}]}, "both defined"), ({"tolerations": {}}, "not a list")):
        document = next(d for d in manifests.documents(FOLDER / "daemonset.yaml") if d["kind"] == "DaemonSet")
        manifests.pod_of(document).update(wrong)
        found = manifests.check(document)
        assert any(what in line for line in found), (wrong, found)
    for document in manifests.documents(FOLDER / "perftest.yaml"):
        for container in manifests.pod_of(document).get("containers", []):
            pod = manifests.pod_of(document)["securityContext"]
            assert pod["runAsNonRoot"] and pod["seccompProfile"] == {"type": "RuntimeDefault"}, pod
            assert container["securityContext"] == manifests.LOCKED, container
            assert container["resources"]["limits"] == {"uroce.dev/uroce0": 1}, container


def wrong_options():
    for options, what in ((["--domain", "Uroce_dev"], "'Uroce_dev' is not a domain for resources"),
                          (["--domain", "node.kubernetes.io"], "not of kubernetes.io"), (["--shares", "0"], "not in 1 .. 10000"),
                          (["--folder", "var"], "'var' is not an absolute path"), (["--interval", "x"], "not in 0.1 .. 3600")):
        done = subprocess.run([PLUGIN, *options], text=True, capture_output=True, timeout=60, check=False)
        assert done.returncode == 2 and what in done.stderr, done


def refused(kubelet_dir):
    kubelet = Kubelet(kubelet_dir, refuse="the ResourceName is taken")
    done = lib.spawn([PLUGIN, "--interval", "0.2", "--device", "uroce0"], env={"PATH": program_path()})
    assert done.wait(lib.processes.HANGS_S) == 1, done.output()
    assert "the kubelet refused uroce.dev/uroce0: the ResourceName is taken" in done.output(), done.output()
    kubelet.stop()
    assert not list(kubelet_dir.iterdir())


def program_path():
    return ":".join([str(lib.UROCE_RUN.parent), str(lib.UROCECTL.parent), os.environ["PATH"]])


def main():
    lib.need_root()
    container_kit.private_mounts()
    container_kit.install(PACKAGES)
    modules()
    with lib.case("the manifests have the API's fields, and pods of users are restricted"):
        check_manifests()
    with lib.case("wrong options are refused with the reason"):
        wrong_options()
    node = Node()
    node.podman("import", "-q", container_kit.image(), "rdma")
    kubelet_dir, name = pathlib.Path("/var/lib/kubelet/device-plugins"), "uroce.dev/uroce0"
    with lib.case("the DaemonSet's daemon starts with its manifest's privileges"):
        daemon = node.daemon()
    with lib.case("the plugin registers, and lists as many devices as it has shares"):
        plugin = node.plugin()
        lib.until("the plugin waits for a kubelet", lambda: "waiting for the kubelet's socket" in plugin.output())
        kubelet = Kubelet(kubelet_dir)
        lib.until("uroce0 is healthy", lambda: kubelet.health(name) == "Healthy")
        assert set(kubelet.requests) == {name} and kubelet.requests[name].version == "v1beta1", kubelet.requests
        assert [i for i, _ in kubelet.lists[name]] == [f"uroce0-{i}" for i in range(SHARES)], kubelet.lists
        options = kubelet.call(name, "GetDevicePluginOptions", api.Empty(), api.DevicePluginOptions)
        assert not options.pre_start_required and not options.get_preferred_allocation_available, options
    with lib.case("Allocate names the CDI device, whose file has a hook that the node finds"):
        answer = kubelet.allocate(name, "uroce0-1")
        assert [device.name for device in answer.cdi_devices] == ["uroce.dev/rdma=uroce0"], answer
        assert not answer.mounts and not answer.envs, answer
        spec = json.loads(pathlib.Path("/var/run/cdi/uroce.json").read_text())
        hooks = [hook["path"] for device in spec["devices"] for hook in device["containerEdits"]["hooks"]]
        assert set(hooks) == {"/var/lib/uroce/bin/uroce-run"} and os.access(hooks[0], os.X_OK), spec
        with contextlib.suppress(grpc.RpcError):
            raise AssertionError(kubelet.allocate(name, "uroce0-99"))
    with lib.case("two restricted pods with what Allocate returned transfer (CDI)"):
        node.transfer(injected(answer), injected(kubelet.allocate(name, "uroce0-0")))
    with lib.case("a kubelet that restarts gets a new registration"):
        kubelet.stop()
        kubelet = Kubelet(kubelet_dir)
        lib.until("uroce0 is healthy", lambda: kubelet.health(name) == "Healthy")
    with lib.case("a daemon that ends makes its devices unhealthy, the next one healthy"):
        daemon.term()
        lib.until("uroce0 is unhealthy", lambda: kubelet.health(name) == "Unhealthy")
        daemon = node.daemon()
        lib.until("uroce0 is healthy", lambda: kubelet.health(name) == "Healthy")
    with lib.case("SIGTERM ends the plugin, which removes its socket"):
        assert plugin.term() == 0, plugin.output()
        assert [path.name for path in kubelet_dir.iterdir()] == ["kubelet.sock"]
    with lib.case("--inject mounts: two restricted pods transfer without CDI"):
        plugin = node.plugin("--inject", "mounts", "--device", "all")
        lib.until("both are healthy", lambda: kubelet.health(name) == kubelet.health("uroce.dev/all") == "Healthy")
        pathlib.Path("/var/run/cdi/uroce.json").unlink()
        answers = [kubelet.allocate(name, f"uroce0-{i}") for i in range(2)]
        assert not answers[0].cdi_devices and answers[0] == answers[1], answers
        node.transfer(*map(injected, answers))
    with lib.case("--inject mounts: a pod sees the device that it requested, or all"):
        for resource, devices in (("uroce0", ["uroce0"]), ("all", ["uroce0", "uroce_lo"])):
            options = injected(kubelet.allocate(f"uroce.dev/{resource}", f"{resource}-0"))
            said = node.podman.run("--network", "none", *node.user_pod(), *options, "rdma", "ibv_devices")
            seen = sorted(word for word in itertools.chain(*map(str.split, said.splitlines())) if word.startswith("uroce"))
            assert seen == devices, said
        assert plugin.term() == 0, plugin.output()
    with lib.case("a kubelet that refuses the resource ends the plugin with the reason"):
        kubelet.stop()
        refused(kubelet_dir)
    with lib.case("the daemon ends cleanly"):
        daemon.term()
    lib.finish()


main()
