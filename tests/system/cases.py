# SPDX-License-Identifier: Apache-2.0
"""How the Python tests beside this file run their cases, one TAP line each, and end what they started."""
import os
import shutil
import signal
import subprocess
import time
import traceback


def of(scope, helpers):
    """The functions of a test's own that are no helpers, in their order."""
    function = type(of)
    return [f for f in scope.values() if type(f) is function and f.__module__ == "__main__" and f not in helpers]


def run(cases, wanted=()):
    """True when all of them, or those that are named, went well."""
    good = True
    for n, f in enumerate(cases):
        if wanted and f.__name__ not in wanted:
            continue
        try:
            began = time.time()
            f()
            print("ok %d - %s # %.1f s" % (n + 1, f.__name__, time.time() - began), flush=True)
        except Exception:
            good = False
            print("not ok %d - %s" % (n + 1, f.__name__), flush=True)
            traceback.print_exc()
    print("1..%d" % len(cases))
    return good


def end_keepers(*homes):
    """Ends the keepers of these state directories, and waits for that."""
    for home in homes:
        for pid in subprocess.run(["pgrep", "-f", "cay-keeper " + home], stdout=subprocess.PIPE, text=True).stdout.split():
            os.kill(int(pid), signal.SIGTERM)
            for _ in range(100):
                if not os.path.exists("/proc/" + pid):
                    break
                time.sleep(0.1)


def clean(cay, tmp, *homes):
    """Removes the sandboxes of $CAY_HOME, ends keepers, and takes the test's directory away."""
    for box in subprocess.run([cay, "ls", "-q"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout.split():
        subprocess.run([cay, "rm", "-f", box], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end_keepers(*homes)
    shutil.rmtree(tmp, ignore_errors=True)
