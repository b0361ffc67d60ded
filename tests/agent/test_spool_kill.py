"""kill -9: a spool that is killed at any moment has kept what it said it kept, and gives no number twice."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
KILLS = 40
MOST_KILLS = 4000  # a bound, never met: lives go on until enough was done in them

# One process that forks, rather than forty that start: the child does what an agent does, and tells each thing as soon
# as it is done; the parent kills it some milliseconds later, and looks at what it left.
SCRIPT = """
import hashlib, json, os, random, signal, sys, time
from pathlib import Path
from agent.spool.queue import open_spool
from agent.spool.losses import MOST_RANGES
from tests.agent.batches import batch, identity

place, kills, most, draw = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), random.Random(7)
hashes, kept, over, broken = {}, set(), set(), []

def key(body):
    stream, sequence = identity(body)
    return f"{stream}/{sequence}"

def digest(body):
    return hashlib.sha256(body).hexdigest()

def live(tell, seed):
    draw = random.Random(seed)
    spool = open_spool(place, 60_000, 20_000, sync=seed % 2 == 0)
    while True:
        made = []
        def make(stream, sequence):
            made.append(batch(stream, sequence, draw.random(), draw.randrange(1, 40)))
            return made[0]
        if spool.append(make):
            tell("kept", made[0])
        what = draw.random()
        if what < 0.6 and (found := spool.oldest(0)) is not None:
            tell("sent", found[1])
            if what < 0.1:
                spool.refuse(found[0], "no")
            else:
                spool.acknowledge(found[0], found[0] - draw.randrange(3))
        elif what > 0.98:
            tell("stream", b"")
            spool.begin_stream()

def left():
    spool = open_spool(place, 10**9, 10**9, sync=False)
    found = {}
    while (one := spool.oldest(0)) is not None:
        spool.acknowledge(one[0], -1)
        found[key(one[1])] = digest(one[1])
    lost, quarantined, stream = spool._losses.ranges, spool.quarantined, spool.stream
    spool.close()
    return found, lost, quarantined, stream

def drops(lost, known, stream):
    sequence = int(known.split("/")[1])
    forgotten = len(lost) == MOST_RANGES and sequence < lost[0][0]
    return known.startswith(stream) and (forgotten or any(first <= sequence <= last for first, last in lost))

def is_enough(kill):
    return kill >= kills and len(hashes) > kills and len(over) > kills // 2

kill = 0
while not is_enough(kill) and kill < most:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        def tell(what, body):
            line = f"{what} {key(body) if body else ''} {digest(body) if body else ''}\\n"
            os.write(writing, line.encode())
        live(tell, kill)
    os.close(writing)
    # Of four, one is killed while it may still be opening, and three are after they have said something.
    first = os.read(reading, 4096) if kill % 4 else b""
    time.sleep(draw.random() * 0.05)
    os.kill(child, signal.SIGKILL)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        broken.append(f"life {kill} ended by itself")
    with open(reading, "rb") as rest:
        told = (first + rest.read()).decode().splitlines()
    changed = False
    for line in told:
        what, known, hashed = (line.split(" ") + ["", ""])[:3]
        changed |= what == "stream"
        if what in ("kept", "sent"):
            if hashes.setdefault(known, hashed) != hashed:
                broken.append(f"{known} has two bodies")
        if what == "kept":
            kept.add(known)
        if what == "sent":
            over.add(known)
    found, lost, quarantined, stream = left()
    if quarantined:
        broken.append(f"{quarantined} were set aside after kill {kill}")
    for known, hashed in found.items():
        if hashes.setdefault(known, hashed) != hashed:
            broken.append(f"{known} came back with another body")
    if not changed:
        missing = [one for one in kept - over if one not in found and not drops(lost, one, stream)]
        broken += [f"{one} is lost after kill {kill}" for one in missing]
    kept = set(found)
    kill += 1
print(json.dumps({"broken": broken[:10], "kills": kill, "batches": len(hashes), "sent": len(over)}))
"""


def test_forty_kills_lose_nothing_and_give_no_number_twice(tmp_path: Path) -> None:
    """What append() called safe is delivered, was sent already, or is on the list of what was dropped."""
    line = [sys.executable, "-c", SCRIPT, str(tmp_path / "spool"), str(KILLS), str(MOST_KILLS)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["broken"] == []
    assert said["kills"] >= KILLS
    assert said["batches"] > KILLS, "some was done between the kills, or this shows nothing"
    assert said["sent"] > KILLS // 2
