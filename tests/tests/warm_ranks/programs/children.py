"""Starts other interpreters in several ways, and prints what came of each.

    python3 children.py

A line `warm N of M` has how many of them had a module at their start that this program's zygote has imported, and how
many can. With the argument --tell, it only prints whether it has that module.
"""

import multiprocessing
import os
import random
import signal
import subprocess
import sys

WARM = "import sys; print('fractions' in sys.modules)"
counted = possible = 0


def work(queue, number):
    queue.put((number, "fractions" in sys.modules, random.random(), multiprocessing.current_process().name))


def by_multiprocessing(method):
    global counted, possible
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=work, args=(queue, number)) for number in range(3)]
    for child in children:
        child.start()
    got = sorted(queue.get(timeout=60) for _ in children)
    for child in children:
        child.join()
    counted += sum(is_warm for _, is_warm, _, _ in got)
    possible += len(got)
    draws = {drawn for _, _, drawn, _ in got}
    print(method, [child.exitcode for child in children], [number for number, *_ in got], len(draws))
    with context.Pool(2) as pool:
        print(pool.map(abs, range(-3, 3)))


def run(*arguments, **options):
    global counted, possible
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)
    counted += done.stdout.startswith("True")
    possible += done.stdout.startswith(("True", "False"))
    print(done.returncode, done.stdout.removeprefix("True\n").removeprefix("False\n"), done.stderr)


def end_by(number):
    # Short pauses: a signal that arrives just before the system call of a pause is acted on only after it.
    code = WARM + "; sys.stdout.flush(); import time; [time.sleep(0.01) for _ in range(10000)]"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    child.send_signal(number)
    print(signal.Signals(number).name, child.wait())


def main():
    for method in "spawn", "forkserver":
        by_multiprocessing(method)
    run("-c", WARM + "; print(sys.argv, getattr(sys, 'orig_argv', [])[1:3], input()); sys.exit(3)", "a b", "", input="in\n")
    run("-m", "json.tool", input="[1]")
    run(__file__, "--tell")
    run("-u", __file__, "--tell", close_fds=False)
    run("-c", WARM + "; print(sorted(__import__('os').environ.items()))", env={"LC_ALL": "C.UTF-8", "A": "b"})
    run("-S", "-c", "print('without site')")
    run("-c", WARM + "; import os; print(os.getcwd(), os.getsid(0) == os.getpid())", cwd="/")
    run("/nonexistent.py")
    run("--version")
    reader, writer = os.pipe()
    run("-c", WARM + f"; import os; os.write({writer}, b'passed on')", pass_fds=[writer])
    print(os.read(reader, 100))
    for number in signal.SIGTERM, signal.SIGKILL, signal.SIGINT:
        end_by(number)
    signal.signal(signal.SIGUSR1, lambda number, frame: print("signal of a child"))
    run("-c", WARM + "; import os, signal; os.kill(os.getppid(), signal.SIGUSR1); print('sent')")
    signal.sigtimedwait([signal.SIGUSR2], 0.2)
    try:
        subprocess.Popen([sys.executable, "-c", ""], cwd="/nonexistent")
    except OSError as error:
        print(error)
    print(subprocess.run(["sh", "-c", "echo $0 $HEADWATER_CHILDREN"], capture_output=True, text=True).stdout)
    print("warm", counted, "of", possible, file=sys.stderr)


if __name__ == "__main__" and sys.argv[1:] == ["--tell"]:
    print("fractions" in sys.modules)
elif __name__ == "__main__":
    main()
