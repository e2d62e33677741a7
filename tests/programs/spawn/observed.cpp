// Reports all that a process can observe of itself, by constructors, before them, and in main(): a line "GROUP.WHAT:
// VALUE" each. Built with -DALL its constructors also do what no fork would repeat: open, lock, share, start.
#include <cerrno>
#include <cfenv>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <random>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "../older.h"

extern char **environ;
extern "C" void *__libc_stack_end;

// The report, and which function checked first. Zeros need no constructor.
static char reported[1 << 16];
static size_t reported_bytes;
static pid_t early_number, early_thread, early_parent;

__attribute__((format(printf, 2, 3))) static void report(const char *what, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	reported_bytes += (size_t)snprintf(reported + reported_bytes, sizeof reported - reported_bytes, "%s: ", what);
	reported_bytes += (size_t)vsnprintf(reported + reported_bytes, sizeof reported - reported_bytes, format,
		values);
	reported_bytes += (size_t)snprintf(reported + reported_bytes, sizeof reported - reported_bytes, "\n");
	va_end(values);
}

static const char *yes(bool is)
{
	return is ? "yes" : "no";
}

// A function that chooses another one: it runs as the program is loaded.
static long chooser;
static int chosen()
{
	return 1;
}
extern "C" int (*choose())()
{
#if defined(__x86_64__)
	long number = SYS_getpid;
	__asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
	chooser = number;
#endif
	return chosen;
}
extern "C" int choice() __attribute__((ifunc("choose")));

// Functions before the C library's, as sanitizers and tracers have them: nothing calls them before the program begins.
static int interposed;
extern "C" int fchdir(int fd) noexcept
{
	interposed++;
	return (int)syscall(SYS_fchdir, fd);
}
extern "C" mode_t umask(mode_t mask) noexcept
{
	interposed++;
	return (mode_t)syscall(SYS_umask, mask);
}
extern "C" int prctl(int option, ...) noexcept
{
	unsigned long values[4];
	va_list list;
	interposed++;
	va_start(list, option);
	for (unsigned long &value : values)
		value = va_arg(list, unsigned long);
	va_end(list);
	return (int)syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]);
}
extern "C" ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	interposed++;
	return syscall(SYS_recvmsg, fd, message, flags);
}

static std::string read_file(const char *path)
{
	std::string text;
	char part[4096];
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (got = read(fd, part, sizeof part)) > 0)
		text.append(part, (size_t)got);
	close(fd);
	return text;
}

static void report_hex(const char *what, const void *data, size_t bytes)
{
	char text[65] = "";
	for (size_t i = 0; i < bytes && i < 32; i++)
		snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)data)[i]);
	report(what, "%s", text);
}

static long nanoseconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

// The first of the program's constructors.
__attribute__((constructor(101))) static void check_first(int argc, char **argv, char **envp)
{
	int error = errno;
	struct mallinfo2 heap = mallinfo2();
	report("constructors.interposed", "%d", interposed);
	report("state.errno", "%d", error);
	report("state.heap", "%zu in use of %zu, %zu apart", size_t(heap.uordblks), size_t(heap.arena),
		size_t(heap.hblkhd));
	early_number = getpid();
	early_thread = gettid();
	early_parent = getppid();
	const char *rank = getenv("HEADWATER_RANK");
	report("constructors.variable", "%s", rank ? rank : "none");
	report("constructors.arguments", "%d %s", argc, argc > 1 ? argv[1] : "none");
	report("state.name", "%s, short %s", strrchr(program_invocation_name, '/'), program_invocation_short_name);
	report("state.environment", "%s", yes(envp == environ && envp == argv + argc + 1));
}

static void check_random()
{
	uint64_t bytes = 0;
	int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (read(file, &bytes, sizeof bytes) == sizeof bytes)
		report("constructors.random-file", "%lx", bytes);
	close(file);
	if (getrandom(&bytes, sizeof bytes, 0) == sizeof bytes)
		report("constructors.random-call", "%lx", bytes);
	report_hex("constructors.random-vector", (const void *)getauxval(AT_RANDOM), 16);
	report("constructors.realtime", "%ld", nanoseconds(CLOCK_REALTIME));
	report("constructors.monotonic", "%ld", nanoseconds(CLOCK_MONOTONIC));
#if defined(__x86_64__)
	report("constructors.counter", "%llx", __builtin_ia32_rdtsc());
#endif
	srand((unsigned)nanoseconds(CLOCK_MONOTONIC) ^ (unsigned)getpid());
	report("constructors.rand", "%d", rand());
}

static pid_t early_child;
static int at_end_order;

static void first_at_end()
{
	printf("state.end-%d: first registered\n", ++at_end_order);
}

// The state that a fork would take over, and main() sees, or would not.
__attribute__((constructor(102))) static void change()
{
	check_random();
	mlockall(MCL_CURRENT);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	early_child = fork();
	if (early_child == 0)
		_exit(7);
	atexit(first_at_end);
	printf("state.buffered: begun by a constructor");
	report("state.processors", "%u", std::thread::hardware_concurrency());
}

#ifdef ALL
static int opened, locked, *shared_memory, *shared_segment;
static volatile sig_atomic_t ticks, usr1;
static volatile bool runs;
static timer_t timer;
static pthread_t thread;

static void *run(void *unused)
{
	runs = true;
	return unused;
}

static void tick(int number)
{
	if (number == SIGALRM)
		ticks = ticks + 1;
	else
		usr1 = usr1 + 1;
}

static int own_file(const char *name)
{
	char path[4096];
	const char *rank = getenv("HEADWATER_RANK"), *directory = getenv("OBSERVED");
	snprintf(path, sizeof path, "%s/%s.%s", directory ? directory : ".", name, rank ? rank : "none");
	return open(path, O_RDWR | O_CREAT, 0600);
}

__attribute__((constructor(103))) static void start()
{
	struct sigevent event = {};
	struct itimerspec often = {{0, 1000000}, {0, 1000000}};
	struct itimerval long_time = {{0, 0}, {1000, 0}};
	struct flock lock = {};
	stack_t stack = {malloc(1 << 16), 0, 1 << 16};
	struct rlimit files = {200, 300};
	sigset_t blocked;
	char byte;

	opened = open("/proc/version", O_RDONLY);
	if (read(opened, &byte, 1) != 1)
		exit(90);
	locked = own_file("locked");
	lock.l_type = F_WRLCK;
	if (flock(locked, LOCK_EX | LOCK_NB) || fcntl(locked, F_SETLK, &lock))
		exit(91);
	shared_memory = (int *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	shared_segment = (int *)shmat(segment, NULL, 0);
	shmctl(segment, IPC_RMID, NULL);
	signal(SIGALRM, tick);
	signal(SIGUSR1, tick);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGALRM;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	setitimer(ITIMER_VIRTUAL, &long_time, NULL);
	sigaltstack(&stack, NULL);
	setrlimit(RLIMIT_NOFILE, &files);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	raise(SIGUSR2);
	umask(0123);
	setenv("BY_CONSTRUCTOR", std::to_string(getpid()).c_str(), 1);
	pthread_create(&thread, NULL, run, NULL);
	if (setpriority(PRIO_PROCESS, 0, 3) || chdir("/usr"))
		exit(92);
}

// True if another process finds the file locked by this one.
static bool holds_lock()
{
	int status = 0;
	pid_t other = fork();
	if (other == 0) {
		struct flock lock = {};
		lock.l_type = F_WRLCK;
		_exit(fcntl(locked, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == getppid() ? 0 : 1);
	}
	return waitpid(other, &status, 0) == other && status == 0;
}

static void check_started()
{
	struct itimerval left;
	const char *number = getenv("BY_CONSTRUCTOR");

	report("started.file", "%ld", (long)lseek(opened, 0, SEEK_CUR));
	report("started.lock", "%s", yes(holds_lock()));
	report("started.memory", "%d", __sync_fetch_and_add(shared_memory, 1));
	report("started.segment", "%d", __sync_fetch_and_add(shared_segment, 1));
	bool has_joined = pthread_join(thread, NULL) == 0;
	report("started.thread", "%s %s", yes(has_joined), yes(runs));
	for (long end = nanoseconds(CLOCK_MONOTONIC) + 10000000000; ticks < 3 && nanoseconds(CLOCK_MONOTONIC) < end;)
		sched_yield();
	report("started.timer", "%s", yes(ticks >= 3));
	getitimer(ITIMER_VIRTUAL, &left);
	report("started.interval", "%s", yes(left.it_value.tv_sec > 900));
	report("started.variable", "%s", yes(number && atoi(number) == getpid()));
	raise(SIGUSR1);
	report("started.handler", "%d", (int)usr1);
	timer_delete(timer);
}
#else
static void check_started()
{
}
#endif

// By the C++ library, as people write it.
static const unsigned from_device = std::random_device{}();
static std::mt19937_64 generator{std::random_device{}()};
static thread_local std::string of_thread = "of a thread";

static uintptr_t guard_of_stack()
{
	uintptr_t guard = 0;
#if defined(__x86_64__)
	__asm__("mov %%fs:0x28, %0" : "=r"(guard));
#endif
	return guard;
}

static void check_guards()
{
#if defined(__x86_64__)
	uintptr_t pointers, random[2];
	memcpy(random, (const void *)getauxval(AT_RANDOM), sizeof random);
	__asm__("mov %%fs:0x30, %0" : "=r"(pointers));
	report("guards.stack", "%lx", guard_of_stack());
	report("guards.pointers", "%lx", pointers);
	report("guards.derived", "%s", yes(guard_of_stack() == (random[0] & ~0xfful) && pointers == random[1]));
#endif
	report_hex("state.random-vector", (const void *)getauxval(AT_RANDOM), 16);
}

static int count_object(struct dl_phdr_info *info, size_t, void *seen)
{
	int *count = (int *)seen;
	if (++*count == 2)
		report("state.first-library", "%s", info->dlpi_name);
	return 0;
}

static bool is_on_stack(const std::string &maps, const void *address)
{
	size_t line = maps.rfind('\n', maps.find("[stack]")) + 1;
	unsigned long begin = 0, end = 0;
	sscanf(maps.c_str() + line, "%lx-%lx", &begin, &end);
	return (unsigned long)address >= begin && (unsigned long)address < end;
}

// A field of /proc/self/stat, counted from 1.
static unsigned long field(int number)
{
	std::string text = read_file("/proc/self/stat");
	size_t at = text.rfind(')') + 2;
	for (int passed = 3; passed < number; passed++)
		at = text.find(' ', at) + 1;
	return strtoul(text.c_str() + at, NULL, 10);
}

static void check_memory(char **argv)
{
	int local, objects = 0;
	std::string maps = read_file("/proc/self/maps");
	void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	void *stack = NULL;
	size_t bytes = 0;

	report("addresses.program", "%p", (void *)reported);
	report("addresses.library", "%p", dlsym(RTLD_DEFAULT, "printf"));
	report("addresses.heap", "%p", malloc(10));
	report("addresses.stack", "%p", (void *)&local);
	report("addresses.mapped", "%p", mapped);
	report("addresses.kernel", "%lx", getauxval(AT_SYSINFO_EHDR));
	report("library.mapped", "%s", yes(maps.find("/libheadwater-zygote.so") != std::string::npos));
	dl_iterate_phdr(count_object, &objects);
	report("library.listed", "%d", objects);
	report("arguments.on-stack", "%s %s", yes(is_on_stack(maps, argv[0])), yes(is_on_stack(maps, environ[0])));
	report("arguments.begin", "%s", yes(field(28) == (unsigned long)(argv - 1)));
	report("choosers.number", "%s", yes(choice() && chooser == getpid()));
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &stack, &bytes);
	bool is_within = (char *)&local > (char *)stack && (char *)&local < (char *)stack + bytes;
	report("state.stack", "%s %s", yes(is_within), yes((char *)__libc_stack_end > (char *)&local));
}

static void check_thread()
{
	int *number = NULL;
	void *robust = NULL;
	size_t bytes = 0;

	prctl(PR_GET_TID_ADDRESS, &number);
	report("state.thread-number", "%s", yes(number && *number == gettid()));
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&mutex);
	report("state.owner", "%s", yes(mutex.__data.__owner == gettid()));
	pthread_mutex_unlock(&mutex);
	syscall(SYS_get_robust_list, 0, &robust, &bytes);
	report("state.robust", "%s %zu", yes(robust != NULL), bytes);
#ifdef SYS_rseq
	long registered = syscall(SYS_rseq, NULL, 0u, 0, 0u);
	report("state.sequences", "%ld %d", registered, errno);
#endif
	report("state.thread-local", "%s", of_thread.c_str());
	report("state.rounding", "%d %lx", fegetround(),
		(unsigned long)
#if defined(__x86_64__)
			__builtin_ia32_stmxcsr()
#else
			0
#endif
	);
}

// Pending signals: but for the timer's, which may arrive at any moment.
static void check_pending()
{
	sigset_t pending;
	char numbers[65] = "";
	sigpending(&pending);
	for (int number = 1; number < 65; number++)
		numbers[number - 1] = number != SIGALRM && sigismember(&pending, number) == 1 ? '1' : '0';
	report("state.pending", "%s", numbers);
}

static void check_status()
{
	static const char *const names[] = {"Name", "Umask", "State", "Uid", "Gid", "Groups", "SigBlk", "SigIgn",
		"SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Cpus_allowed",
		"Mems_allowed", "TracerPid", "THP_enabled"};
	std::string status = "\n" + read_file("/proc/self/status");
	for (const char *name : names) {
		size_t at = status.find(std::string("\n") + name + ":");
		if (at != std::string::npos)
			report((std::string("state.") + name).c_str(), "%s",
				status.substr(at + 1, status.find('\n', at + 1) - at - 1).c_str());
	}
	for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
		struct rlimit limit;
		getrlimit((__rlimit_resource_t)resource, &limit);
		report((std::string("state.limit-") + std::to_string(resource)).c_str(), "%lx %lx", limit.rlim_cur,
			limit.rlim_max);
	}
	for (int fd = 0; fd < 200; fd++) {
		struct stat file;
		if (fstat(fd, &file) == 0)
			report((std::string("state.descriptor-") + std::to_string(fd)).c_str(), "%o flags %x",
				file.st_mode & S_IFMT, (unsigned)fcntl(fd, F_GETFD));
	}
}

static void check_process(int argc, char **argv)
{
	char directory[4096], joined[4096];
	stack_t stack;
	int death = 0, status = 0;
	std::string line = read_file("/proc/self/cmdline"), locked = read_file("/proc/self/status");
	size_t bytes = 0;

	report("constructors.number", "%s %s", yes(early_number == getpid()), yes(early_thread == gettid()));
	report("state.parent", "%s", yes(early_parent == getppid()));
	prctl(PR_GET_PDEATHSIG, &death);
	report("constructors.death", "%d", death);
	locked.erase(0, locked.find("VmLck:") + 6);
	report("constructors.locked", "%s", yes(atoi(locked.c_str()) > 0));
	bool is_own = waitpid(early_child, &status, 0) == early_child;
	report("constructors.child", "%s %x", yes(is_own), (unsigned)status);
	for (int i = 0; i < argc; i++)
		bytes += (size_t)snprintf(joined + bytes, sizeof joined - bytes, "%s", argv[i]) + 1;
	report("state.line", "%s", yes(line.size() == bytes && !memcmp(line.data(), joined, bytes)));
	report("state.directory", "%s", getcwd(directory, sizeof directory));
	report("state.priority", "%d %d", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
	sigaltstack(NULL, &stack);
	report("state.alternate", "%x", (unsigned)stack.ss_flags);
	report("state.executable", "%s", (const char *)getauxval(AT_EXECFN));
	report("state.slack", "%d %d %d", prctl(PR_GET_TIMERSLACK), prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS));
	report("state.group", "%s", read_file("/proc/self/cgroup").c_str());
	report("execution.flags", "%s", yes((field(9) & 0x40) == 0));
}

static void check_language()
{
	jmp_buf buffer;
	volatile int turn = 0;

	if (setjmp(buffer) < 3) {
		turn = turn + 1;
		longjmp(buffer, turn);
	}
	report("state.jumps", "%d", turn);
	try {
		throw std::runtime_error("thrown");
	} catch (const std::exception &thrown) {
		report("state.exception", "%s", thrown.what());
	}
	void *missing = dlopen("no-such-library.so", RTLD_NOW);
	report("state.missing", "%s %s", yes(missing), dlerror());
	report("constructors.device", "%x", from_device);
	report("constructors.generator", "%lx", generator());
}

int main(int argc, char **argv)
{
	printf(", ended by main\n");
	check_guards();
	check_memory(argv);
	check_thread();
	check_pending();
	check_status();
	check_process(argc, argv);
	check_language();
	check_started();
	fwrite(reported, 1, reported_bytes, stdout);
	return 0;
}
