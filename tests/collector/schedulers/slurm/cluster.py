"""A real Slurm on this machine: controller, accounting with its database, three hosts of four GPUs that do not exist.

Everything lies in one directory and listens on free ports of loopback, as whoever runs the tests: no service of the
machine is touched, none needs to run, and several may run at once.
"""

import contextlib
import getpass
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.fleet.ports import free_ports
from tests.waiting import PATIENCE_SECONDS, until

PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "sacct", "mariadbd", "mariadb-install-db")
PACKAGES = "slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-mysql-plugin mariadb-server"
SBIN = ("/usr/sbin", "/sbin")
NODES = ("n1", "n2", "n3")
GPUS = 4
PROLOG = Path(__file__).parents[4] / "docs" / "slurm" / "gpustat.sh"
FREEZER = Path("/sys/fs/cgroup/freezer")

_CONF = """
ClusterName=testcluster
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
FirstJobId={first_job}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool-%n
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd-%n.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/slurmd-%n.log
Prolog={here}/gpustat.sh
Epilog={here}/gpustat.sh
PrologFlags=Alloc
ProctrackType=proctrack/{tracked_by}
TaskPlugin=task/none
MpiDefault=none
ReturnToService=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting_port}
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/none
KillWait=1
MinJobAge=300
TopologyPlugin=topology/tree
{nodes}
PartitionName=train Nodes=n[1-3] Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=urgent Nodes=n[1-3] MaxTime=INFINITE PriorityTier=10 State=UP
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 Boards=1 SocketsPerBoard=1 "
    "CoresPerSocket=16 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:h100:{gpus}"
)
_ACCOUNTING = """
AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={accounting_port}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
LogFile={here}/slurmdbd.log
PidFile={here}/slurmdbd.pid
"""
_DATABASE_USER = (
    "CREATE DATABASE slurm; CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm'; "
    "GRANT ALL ON slurm.* TO slurm@'127.0.0.1'"
)


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in PROGRAMS if _program(name) is None]


def cgroups_are_ours() -> bool:
    """Return whether Slurm could keep its jobs in cgroups here: as root, with a freezer that can be written."""
    probe = FREEZER / f"gpuledger-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return os.geteuid() == 0


class Cluster:
    """The daemons, and a way to use their commands."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_", "CUDA_"))
        } | {"SLURM_CONF": str(here / "slurm.conf"), "TMPDIR": str(here / "tmp")}
        self.tracked_by = "cgroup" if cgroups_are_ours() else "linuxproc"
        self._first_job = 0
        self.hopeless = 0  # a job that will run out of time, sent off at the start
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start everything; return when jobs can run."""
        controller, accounting, database, *nodes = free_ports(3 + len(NODES))
        self._first_job = controller * 1000  # clusters side by side share the cgroups of hosts of the same names
        facts = {
            "here": self.here,
            "host": os.uname().nodename,
            "user": getpass.getuser(),
            "controller_port": controller,
            "first_job": self._first_job,
            "accounting_port": accounting,
            "database_port": database,
            "tracked_by": self.tracked_by,
        }
        self._write(facts, nodes)
        self._start_database(database)
        self._daemon("slurmdbd", "-D")
        self.wait(lambda: self.succeeds("sacctmgr", "-i", "add", "cluster", "testcluster"), "slurmdbd")
        self.run("sacctmgr", "-i", "add", "account", "vision")
        self.run("sacctmgr", "-i", "add", "user", getpass.getuser(), "account=vision")
        self._daemon("slurmctld", "-D", "-c")
        for name in NODES:
            self._daemon("slurmd", "-D", "-N", name)
        self.wait(lambda: self.run("sinfo", "-h", "-N", "-p", "train", "-o", "%T").split() == ["idle"] * 3, "slurmd")
        self.hopeless = self.submit("sleep 600", "--gres=gpu:1", "--time=1", "--nodelist=n1", "--job-name=hopeless")

    def stop(self) -> None:
        """End all jobs and daemons."""
        if self.succeeds("scancel", "--user", getpass.getuser()):
            with contextlib.suppress(AssertionError):  # what does not end by itself is ended below
                self.wait(lambda: not self.run("squeue", "-h"), "all jobs to end", 10)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._end_steps()

    def run(self, name: str, *arguments: str) -> str:
        """Return what a command printed."""
        done = subprocess.run(
            [_program(name) or name, *arguments], env=self.environment, cwd=self.here, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{name} {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def succeeds(self, name: str, *arguments: str) -> bool:
        """Return whether a command goes well."""
        command = [_program(name) or name, *arguments]
        return subprocess.run(command, env=self.environment, cwd=self.here, capture_output=True).returncode == 0

    def submit(self, script: str, *options: str) -> int:
        """Submit a script of bash and return the job's number."""
        path = self.here / "job.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        printed = self.run("sbatch", "--parsable", "--output=/dev/null", "--account=vision", *options, str(path))
        return int(printed.split(";")[0])

    def requeue(self, job: int) -> None:
        """Send a running job back, and wait until it runs again, which Slurm would put off for two minutes.

        It sets that time once more when the old processes are gone, so that we set ours until it holds. A host takes a
        job that begins in the second in which it was killed for the one that was killed.
        """
        self.run("scontrol", "requeue", str(job))
        self.wait_for(PENDING=[job])
        self.wait(lambda: "completing" not in self.run("sinfo", "-h", "-o", "%T"), f"job {job} to be gone")
        time.sleep(2)

        def runs() -> bool:
            state = self.states().get(str(job))
            if state == "PENDING":
                self.succeeds("scontrol", "update", f"jobid={job}", "StartTime=now")  # it may have begun meanwhile
            return state == "RUNNING"

        self.wait(runs, f"job {job} to run again")

    def states(self) -> dict[str, str]:
        """Return the state of every job that the controller knows, by its id as people write it."""
        lines = self.run("squeue", "-h", "-r", "--states=all", "-o", "%i %T").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def wait_for(self, **jobs: Iterable[object]) -> None:
        """Wait until jobs are in a state: wait_for(RUNNING=[3, "4_1"])."""
        wanted = {str(job): state for state, ids in jobs.items() for job in ids}
        self.wait(lambda: wanted.items() <= self.states().items(), f"jobs to be {jobs}")

    def wait(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until something holds; fail loudly where it never does."""
        until(true, what, seconds, more=self._logs)

    def _end_steps(self) -> None:
        """End the shepherds of jobs, which outlive the daemons while they cannot report; they show the job's number."""
        ours = re.compile(rf"slurmstepd: \[{self._first_job // 1000}\d\d\d\.")
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and ours.match((entry / "cmdline").read_text(errors="replace")):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue  # it has ended by itself

    def _write(self, facts: dict[str, object], ports: list[int]) -> None:
        for name in ("state", "database", "tmp"):  # a MariaDB that starts clears the tables in its TMPDIR, of whomever
            (self.here / name).mkdir()
        for node in NODES:
            for gpu in range(GPUS):
                (self.here / f"{node}-gpu{gpu}").symlink_to("/dev/null")  # a device, as gres.conf must name one
        nodes = (_NODE.format(name=n, port=port, gpus=GPUS, **facts) for n, port in zip(NODES, ports, strict=True))
        (self.here / "slurm.conf").write_text(_CONF.format(nodes="\n".join(nodes), **facts))
        gres = (f"NodeName={n} Name=gpu Type=h100 File={self.here}/{n}-gpu[0-{GPUS - 1}]\n" for n in NODES)
        (self.here / "gres.conf").write_text("".join(gres))
        (self.here / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n")
        script = PROLOG.read_text().replace("/run/gpustat", f"{self.here}/gpustat-$SLURMD_NODENAME")
        (self.here / "gpustat.sh").write_text(script)
        (self.here / "gpustat.sh").chmod(0o755)
        racks = "SwitchName=r1 Nodes=n[1-2]\nSwitchName=r2 Nodes=n3\nSwitchName=row Switches=r[1-2]\n"
        (self.here / "topology.conf").write_text(racks)
        secret = self.here / "slurmdbd.conf"
        secret.write_text(_ACCOUNTING.format(**facts))
        secret.chmod(0o600)  # or slurmdbd refuses it

    def _start_database(self, port: int) -> None:
        user, where = f"--user={getpass.getuser()}", f"--datadir={self.here}/database"
        self.run("mariadb-install-db", "--no-defaults", where, user, "--auth-root-authentication-method=normal")
        sock = f"--socket={self.here}/db.sock"
        small = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0")
        listen = (f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve", f"--pid-file={self.here}/db.pid")
        self._daemon("mariadbd", "--no-defaults", where, user, sock, *listen, *small)
        client = ("mariadb", "--no-defaults", sock, "--user=root", "--execute")
        self.wait(lambda: self.succeeds(*client, "SELECT 1"), "the database")
        self.run(*client, _DATABASE_USER)

    def _daemon(self, name: str, *arguments: str) -> None:
        with (self.here / f"{name}-{len(self._daemons)}.out").open("wb") as out:
            command = [_program(name) or name, *arguments]
            self._daemons.append(subprocess.Popen(command, env=self.environment, cwd=self.here, stdout=out, stderr=out))

    def _logs(self) -> str:
        files = [*self.here.glob("*.log"), *self.here.glob("*.out")]
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-600:]}" for file in sorted(files))


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *SBIN]))
