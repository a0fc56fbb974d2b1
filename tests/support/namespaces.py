"""A worker in a network of its own, whose way to the master can be taken away: packets vanish and
neither side is told. Needs root, iproute2 and a kernel that gives network namespaces."""

import os
import shutil
import subprocess

MASTER, ENDPOINT = "10.77.0.3", "10.77.0.1"
"""Two addresses of this machine on the way to that worker, so that one can be lost alone."""
_ROUTER, _WORKER = "swarmgauge-router", "swarmgauge-worker"
_NEAR = "swarmgauge0"
_UP = f"""
netns add {_ROUTER}
netns add {_WORKER}
link add {_NEAR} type veth peer name near netns {_ROUTER}
-n {_ROUTER} link add far type veth peer name home netns {_WORKER}
addr add {ENDPOINT}/24 dev {_NEAR}
addr add {MASTER}/24 dev {_NEAR}
link set {_NEAR} up
-n {_ROUTER} addr add 10.77.0.2/24 dev near
-n {_ROUTER} link set near up
-n {_ROUTER} addr add 10.77.1.1/24 dev far
-n {_ROUTER} link set far up
-n {_WORKER} addr add 10.77.1.2/24 dev home
-n {_WORKER} link set home up
-n {_WORKER} link set lo up
-n {_WORKER} route add default via 10.77.1.1
route add 10.77.1.0/24 via 10.77.0.2
"""
_FORWARD = "echo 1 > /proc/sys/net/ipv4/ip_forward"
INSIDE = ("ip", "netns", "exec", _WORKER)
"""What is put before a command that is to run there."""


class Wire:
    """The way between that worker and this machine, while the context lasts."""

    def __enter__(self):
        self.__exit__()
        for words in _UP.strip().splitlines():
            _ip(*words.split())
        _ip("netns", "exec", _ROUTER, "sh", "-c", _FORWARD)
        return self

    def __exit__(self, *_):
        for words in (f"link del {_NEAR}", f"netns del {_ROUTER}", f"netns del {_WORKER}"):
            subprocess.run(["ip", *words.split()], capture_output=True, check=False)

    def cut(self):
        """The router drops all to and from the master."""
        _ip("-n", _ROUTER, "route", "add", "blackhole", f"{MASTER}/32")
        _ip("-n", _ROUTER, "rule", "add", "from", MASTER, "blackhole")

    def mend(self):
        """It passes all again."""
        _ip("-n", _ROUTER, "route", "del", "blackhole", f"{MASTER}/32")
        _ip("-n", _ROUTER, "rule", "del", "from", MASTER, "blackhole")


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def why_not():
    """Why there can be no such network here; None when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "no iproute2"
    try:
        with Wire():
            return None
    except OSError as error:
        return f"no network namespaces here: {error}"
