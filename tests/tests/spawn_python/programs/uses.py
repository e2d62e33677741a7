import made, asyncio, atexit, concurrent.futures, contextlib, inspect, multiprocessing, os, signal, subprocess, sys
import threading, time, traceback


def square(number):
    return number * number


async def later():
    await asyncio.sleep(0)
    made = await asyncio.create_subprocess_exec("echo", "from asyncio", stdout=subprocess.PIPE)
    return (await made.communicate())[0]


if __name__ == "__main__":
    print("input", input())
    print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv)", "x"], stdout=subprocess.PIPE).stdout)
    for method in ("fork", "forkserver", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(square, range(5)))
    print(asyncio.run(later()))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        print("threads", list(pool.map(square, range(5))))
    signals = []
    signal.signal(signal.SIGALRM, lambda number, frame: signals.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while not signals:
        time.sleep(0.001)
    print("signal", *signals, flush=True)
    os.environ["ADDED"] = "yes"
    print(subprocess.run(["sh", "-c", "echo $ADDED"], stdout=subprocess.PIPE).stdout)
    print([(frame.filename, frame.function) for frame in inspect.stack()])
    with contextlib.redirect_stderr(sys.stdout):
        traceback.print_stack()
    child = os.fork()
    if child == 0:
        os._exit(3)
    print("fork", os.waitpid(child, 0)[1])
    atexit.register(print, "at the end")
    started = threading.Event()
    threading.Thread(target=lambda: (started.wait(), print("after main"))).start()
    started.set()
