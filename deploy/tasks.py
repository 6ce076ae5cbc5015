"""Starts and ends the tasks of a cluster on its hosts."""

import os
import shlex

from answers import Status, endpoint, endpoint_at, one_line, printable, read_object, tasks_in, words_of
from doctors import describe, examine_links
from hosts import ROLES, complain, fail, find_chief, is_loopback, on_all
from install import Install, Job, put_keys


OVER = 4  # what a script says where the job is over


class JobIsOver(Exception):
    """Its chief has written how it ended, and is to be started no more."""


def tasks_of(role, counts):
    return ["chief"] if role == "chief" else [f"{role}-{i}" for i in range(counts[role])]


def places(running, counts):
    """A host for each task: where it runs, else the first free slot of the hosts that answer."""
    place = {task: host for host, tasks in running.items() for task in tasks}
    for role in ROLES:
        free = []
        for host in running:
            busy = sum(at is host and task.split("-")[0] == role for task, at in place.items())
            free += [host] * (host.slots.get(role, 0) - busy)
        tasks = tasks_of(role, counts)
        missing = [task for task in tasks if task not in place]
        if len(missing) > len(free):
            homeless = ", ".join(missing[len(free):])
            fail(f"the job needs {len(tasks)} of {role}, but the hosts that answer have no place for {homeless}")
        place.update(zip(missing, free))
    return place


def start_chief(chief, options, used):
    """Starts it unless it runs; where it listens. The names of the hosts that are `used` are kept with it: only those
    hold something of this cluster."""
    listen = endpoint(chief.address(), options.port)
    flags = f"--cluster=none --job=job.json --job_dir=run --resume --listen={shlex.quote(listen)}"
    flags += f" --command={shlex.quote(options.command)}"
    flags += f" --give_up={shlex.quote(options.give_up)}" if options.give_up else ""
    code, out = chief.run(
        f"""printf '%s\\n' {shlex.join(used)} >> used; sort -u -o used used
        {f"[ -e run/summary.json ] && ! alive chief && exit {OVER}" if options.once else ""}
        said=$(stat -c %s logs/chief.out 2> /dev/null || echo 0)
        start chief install/downpour-chief {flags}
        for attempt in $(seq 300); do
          alive chief || break
          grep -s '"pid":'"$pid"'[,}}]' run/chief.json && exit 0
          sleep 0.1
        done
        tail -c +$((said + 1)) logs/chief.out | tail -n 3
        exit 1""",
        check=False,
    )
    if code == OVER and options.once:
        raise JobIsOver
    if code:
        fail(f"the chief on {chief.name} did not start: {one_line(out)}")
    try:
        said = words_of(read_object(out), "endpoint")
    except ValueError:
        said = out
    chief_at = endpoint_at(chief.address(), said)
    if not chief_at:  # every other host would go by it
        fail(f"{chief.name} says that its chief listens at {one_line(said)!r}: that is no port of {chief.address()}")
    return chief_at


def mark_of(options):
    """The file by which a host shows that it sees the folder of results itself, as on a shared file system."""
    return options.results / f".{options.below.strip('/')}.shared"


def start_members(host, tasks, chief_at, job, options):
    lines, given = [], ""
    if options.results:
        mark, results = shlex.quote(str(mark_of(options))), shlex.quote(str(options.results))
        lines.append(f"here=; [ -e {mark} ] || {{ mkdir -p results; here=$PWD/results; }}")
        given = f"DOWNPOUR_RESULTS={results} DOWNPOUR_RESULTS_HERE=\"$here\" "
    for task in tasks:
        role, index = task.split("-")
        command = f"install/downpour-{role} --cluster=none --chief={shlex.quote(chief_at)} --index={index}"
        if role == "ps":
            command += f" --listen={shlex.quote(endpoint(host.address(), 0))} --crash_notes=logs/{task}.crashes"
            command += " --job_dir=run" if job.spec["checkpoint"]["via"] == "shared" else ""
        else:
            trial = os.environ.get("CLOUD_ML_TRIAL_ID")
            known = f"CLOUD_ML_TRIAL_ID={shlex.quote(trial)} " if trial else ""
            command = f"env {known}{given}OMP_NUM_THREADS=1 PYTHONPATH=\"$PWD/install/python\" {command}"
            command += " --code_folder=\"$PWD/code\""
            command += f" --python={shlex.quote(options.python)}" if options.python else ""
        lines.append(f"start {task} {command}")
    host.run("\n".join(lines))


def take_back(host, before):
    """Ends what was not there before, and leaves nothing of what was on its way."""
    return host.run(
        f"""new=
        for task in $(ls pids 2> /dev/null); do
          case " {' '.join(before)} " in *" $task "*) ;; *) new="$new $task" ;; esac
        done
        stop $new
        rm -rf install-*.* job.json.part
        [ -n "$(running)" ] || rm -rf keys"""
    )


def look(hosts, job, before):
    """Fills `before`; the hosts that answered. Nobody changes the job of a chief that runs."""
    chief_runs = "alive chief && cat job.json"

    def ask(host):
        tasks, _, running_job = host.run(f"running; echo --; {chief_runs}; true")[1].partition("--\n")
        before[host] = tasks_in(tasks)
        return running_job

    jobs = on_all(hosts, ask)
    for host, running_job in jobs.items():
        try:
            differences = running_job and job.differences(running_job)
        except ValueError as error:
            fail(f"job.json of the chief that runs on {host.name} is none for this release ({error}): `down`, then "
                 "`up`", 2)  # fmt: skip
        if differences:
            fail(f"another job runs with the chief on {host.name}; it differs in {', '.join(differences)}. Say `up` "
                 "with what runs, or change the job by `down` and then `up`", 2)  # fmt: skip
    return list(jobs)


def start_tasks(hosts, options, before, at_first=lambda: None):
    """Starts what does not run yet; (where the chief listens, a host for each task). `before`: filled with what runs on
    each host that answers, before anything is changed there. `at_first` is called before the first task starts."""
    lonely = [host for host in hosts if is_loopback(host.address())]
    if lonely and len(lonely) < len(hosts):
        host = lonely[0]
        fail(f"{host.name} is at {host.address()}, where the other hosts do not reach it: say addr=ADDRESS", 2)
    if not options.keys:
        for host in hosts:
            if not {"chief", "ps"}.isdisjoint(host.slots) and not is_loopback(host.address()):
                fail(f"without keys nothing listens at {host.address()} ({host.name}): make them by `downpour keys new "
                     "--out DIR` and say --keys DIR", 2)  # fmt: skip
    install = Install(options.install, options.shared)
    job = Job(install, options)

    answered = look(hosts, job, before)
    chief = find_chief(hosts)
    cluster = describe(chief, answered, options, Status("{}"))

    def prepare(host):
        install.put_on(host)
        if options.keys:
            put_keys(host, options.keys, host.slots, "keys")
        job.put_on(host)
        examine_links(host, cluster)
        return before[host]

    there = {task for tasks in before.values() for task in tasks}
    is_complete = all(there.issuperset(tasks_of(role, job.counts)) for role in ROLES)
    running = dict(before) if is_complete else on_all(answered, prepare)
    if chief not in running:
        fail("without the chief's host nothing can be started")
    place = places(running, job.counts)
    if options.results:
        options.results.mkdir(parents=True, exist_ok=True)
        mark_of(options).touch()
    at_first()
    chief_at = start_chief(chief, options, {host.name for host in place.values()})
    start = {task: host for task, host in place.items() if task not in there | {"chief"}}
    new = {host: [task for task, at in start.items() if at is host] for host in running}
    members = {host: tasks for host, tasks in new.items() if tasks}
    started = on_all(members, lambda host: start_members(host, members[host], chief_at, job, options))
    if len(started) < len(members):
        fail("not every task could be started; try again, or `down`")
    return chief_at, place


def silent(hosts, answered, used):
    """Those that did not answer and hold something, as far as is known: `used` is what the chief's host said."""
    return [host for host in hosts if host not in answered and (used is None or host.name in used)]


def end_tasks(hosts, report=complain):
    """The chief first: it writes a checkpoint, lets its members go and says how to go on. Keys do not stay. Returns
    (what it said, tasks that still run, hosts that may hold some and do not answer)."""
    chief, used = find_chief(hosts), None
    how = "grep -Eohs '(The last checkpoint is|There is no checkpoint yet).*' logs/chief.out | tail -n 1"
    stop = f"cat used 2> /dev/null; echo --; alive chief && {{ stop chief; {how}; }}; true"
    words = ""
    for said in on_all([chief], lambda host: host.run(stop)[1], report).values():
        names, _, words = said.partition("--\n")
        used = names.split()
    script = "stop $(ls pids 2> /dev/null); rm -rf keys doctor-keys; running"
    answered = on_all(hosts, lambda host: tasks_in(host.run(script)[1]), report)
    left = [f"{task} on {host.name}" for host, tasks in answered.items() for task in tasks]
    lost = silent(hosts, answered, used)
    if chief in answered and not left and not lost:
        chief.run("rm -f used")
    return printable(words), left, lost
