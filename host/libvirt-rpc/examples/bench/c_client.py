"""What examples/bench/main.rs measures, with libvirt's own C client: c_client.py SOCKET WHAT COUNT [VOLUME].

Prints one line of JSON. Needs Debian's python3-libvirt.
"""

import json
import sys
import threading
import time

import libvirt

IN_FLIGHT = 64
CHUNK = 262120

socket, what, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
uri = f"qemu+unix:///system?socket={socket}"


def peak_kib(reset=False):
    if reset:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def each(times):
    begun = time.perf_counter()
    laps = []
    for _ in range(times):
        before = time.perf_counter()
        connection.getLibVersion()
        laps.append(time.perf_counter() - before)
    return time.perf_counter() - begun, sorted(laps)


def figures():
    if what == "setup":
        laps = []
        for _ in range(count):
            before = time.perf_counter()
            one = libvirt.open(uri)
            laps.append(time.perf_counter() - before)
            one.close()
        return {"open": sorted(laps)[count // 2]}
    if what == "sequential":
        each(100)
        seconds, laps = each(count)
        return {"rate": count / seconds, "p50": laps[count // 2], "p99": laps[count * 99 // 100]}
    if what == "threads":
        threads = [threading.Thread(target=each, args=(count // IN_FLIGHT,)) for _ in range(IN_FLIGHT)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"rate": count / (time.perf_counter() - begun)}
    if what == "upload":
        pool, name = sys.argv[4].split("/")
        volume = connection.storagePoolLookupByName(pool).storageVolLookupByName(name)
        data = bytes(range(251)) * (CHUNK // 251 + 1)
        before = peak_kib(reset=True)
        begun = time.perf_counter()
        stream = connection.newStream()
        volume.upload(stream, 0, count)
        left = count
        while left:
            piece = data[: min(CHUNK, left)]
            sent = stream.send(piece)
            left -= sent
        stream.finish()
        return {"seconds": time.perf_counter() - begun, "peak_growth_kib": peak_kib() - before}
    raise SystemExit(f"what is {what}?")


libvirt.registerErrorHandler(lambda *_: None, None)
connection = None if what == "setup" else libvirt.open(uri)
print(json.dumps(figures()))
