"""What the doctor says on each host, and what between them keeps a job from running well."""

import itertools
import json
import re
import time

from answers import endpoint, endpoint_at, one_line, printable
from hosts import HostError, find_chief, on_all, status_of
from install import Install, Job, put_keys


def describe(chief, hosts, options, status):
    """The cluster as each host is to reach it, like TF_CONFIG. `status`: of the one that runs, else empty. A ps listens
    where its kernel says: of a host with none that is known any port will do. What is at none of our hosts is not
    believed."""
    chief_at = endpoint_at(chief.address(), status.chief_endpoint) or endpoint(chief.address(), options.port)
    at, known = {}, set()
    for host in (host for host in hosts if "ps" in host.slots):
        for name, said in status.servers.items():
            if there := endpoint_at(host.address(), said):
                at[name.removeprefix("ps-")] = there
                known.add(host.address())
    free = (index for index in map(str, itertools.count()) if index not in at)
    for number, host in enumerate((host for host in hosts if "ps" in host.slots), 1):
        if host.address() not in known:
            at[next(free)] = endpoint(host.address(), options.port + number)
    return json.dumps({"cluster": {"chief": [chief_at], "ps": at}}).encode()


def examine_links(host, cluster):
    """Ends the host's part in this where names do not resolve there, or others cannot be reached from it."""
    doctor = "install/downpour doctor --cluster=cluster.json --role $role"
    said = host.run(f"cat > cluster.json; for role in {' '.join(host.slots)}; do {doctor}; done; true", cluster)[1]
    if problems := re.findall(r"^PROBLEM +\S+ +(.*)\n +-> (.*)$", said, re.M):
        raise HostError(host, "; ".join(f"{what} (remedy: {remedy})" for what, remedy in dict.fromkeys(problems)))


def examine(host, install, job, cluster, keys):
    """What the doctor says there for each of its roles, and how far its clock is ahead of this one."""

    def ask(role, tasks):
        flags = f"--cluster=cluster.json --role={role} --tasks={tasks}"
        if role != "worker":
            flags += f" --listen={endpoint(host.address(), 0)}"
        if keys:
            put_keys(host, keys, [role], "doctor-keys")
            flags += " --keys=doctor-keys"
        script = f"install/downpour doctor doctor.json {flags}; code=$?; rm -rf doctor-keys; exit $code"
        return host.run(script, check=False)

    install.put_on(host)
    host.run("cat > doctor.json", job.text)
    host.run("cat > cluster.json", cluster)
    before = time.time()
    date = host.run("date +%s.%N")[1].strip()
    if not re.fullmatch(r"[0-9]{1,12}\.[0-9]{9}", date):
        raise HostError(host, f"its clock says {date}")
    skew = float(date) - (before + time.time()) / 2
    return skew, [ask(role, tasks) for role, tasks in host.slots.items()]


def doctor(hosts, options):
    install = Install(options.install)
    job = Job(install, options)
    chief = find_chief(hosts)
    ask = "alive chief && install/downpour status --job-dir run -o json; true"
    said = on_all([chief], lambda host: host.run(ask)[1])
    cluster = describe(chief, hosts, options, status_of(chief, said.get(chief) or "{}"))
    there = [host for host in hosts if host in said or host is not chief]
    found = on_all(there, lambda host: examine(host, install, job, cluster, options.keys))
    sick, copies, skews = len(found) < len(hosts), {}, {}
    for host, (skew, sayings) in found.items():
        skews[host.name] = skew
        for (code, said), role in zip(sayings, host.slots):
            sick = sick or code != 0
            print(f"{host.name}, as {role}:\n{printable(said)}")
            if copy := tuple(re.findall(r"^ok +data +(.*)$", said, re.M)):
                copies.setdefault(copy, []).append(host.name)
    if len(copies) > 1:
        sick = True
        print("PROBLEM  data differ between hosts; copy one of them to all:")
        for copy, names in copies.items():
            print(f"    {', '.join(names)}: {one_line('; '.join(copy))}")
    if skews and max(skews.values()) - min(skews.values()) > 2:
        words = ", ".join(f"{name} {skew:+.1f} s" for name, skew in skews.items())
        print(f"warning  clocks differ: {words}; let all hosts take the time from one server")
    return int(sick)
