/* Start and end: finds out whether all ranks of the job take part, and agrees with them. In doubt, the program's I/O is
 * not changed. */
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/context.h"
#include "base/profile.h"
#include "base/trial.h"
#include "intercept/files/change.h"
#include "intercept/generated-calls.h"
#include "memory/fault.h"
#include "mpi/model.h"
#include "intercept/job/report.h"
#include "intercept/memory/kernel.h"
#include "mpi/control.h"
#include "transfer/incoming.h"
#include "mpi/mounts.h"
#include "mpi/threads.h"
#include "intercept/job/rendezvous.h"
#include "transfer/offer.h"
#include "transfer/outstanding.h"
#include "real.h"
#include "variant.h"

int hwio_variant_start(void *libmpi, void *(*next)(const char *name))
{
	hwio_front_address = (const void *)next;
	if (!hwio_bind_real(libmpi, next))
		return -1;
	hwio_quick.send = (void *)hwio_real.MPI_Send;
	hwio_quick.receive = (void *)hwio_real.MPI_Recv;
	hwio_quick.isend = (void *)hwio_real.MPI_Isend;
	hwio_quick.irecv = (void *)hwio_real.MPI_Irecv;
	return 0;
}

static long number_of_variable(const char *name)
{
	const char *text = getenv(name);
	return text ? atol(text) : -1;
}

/* Returns true if, by the launcher's variables, all ranks are on this node. They have this process's environment
 * then. */
static bool is_one_node(void)
{
	static const char *const pairs[][2] = {
		{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
		{"MPI_LOCALNRANKS", "PMI_SIZE"},
		{"PALS_LOCAL_SIZE", "PALS_SIZE"},
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		long here = number_of_variable(pairs[i][0]), all = number_of_variable(pairs[i][1]);
		if (here > 0 && all > 0)
			return here == all;
	}
	return number_of_variable("SLURM_STEP_NUM_NODES") == 1;
}

/* The launcher has verified that all ranks have this library. */
static bool has_launcher_verified(void)
{
	const char *everywhere = getenv("HEADWATER_IO_EVERYWHERE");
	return everywhere && strcmp(everywhere, "yes") == 0;
}

static enum hwio_mode wanted_mode(void)
{
	const char *mode = getenv("HEADWATER_IO");
	if (mode && strcmp(mode, "off") == 0)
		return HWIO_OFF;
	if (!has_launcher_verified() && !is_one_node())
		return HWIO_OFF;
	if (mode && strcmp(mode, "verify") == 0)
		return HWIO_VERIFY;
	return mode && strcmp(mode, "observe") == 0 ? HWIO_OBSERVE : HWIO_AUTO;
}

/* Returns true if another tool handles faults itself. */
static bool has_other_fault_handler(void)
{
	return hwio_real.MPI_Init == NULL || getenv("ASAN_OPTIONS") != NULL;
}

/* Names of libraries, and the one of them that is loaded, or NULL. */
struct sought {
	const char *const *names;
	const char *found;
};

static int note_library(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct sought *sought = data;
	const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
	(void)bytes;
	for (const char *const *one = sought->names; *one && !sought->found; one++)
		if (strncmp(name, *one, strlen(*one)) == 0)
			sought->found = *one;
	return sought->found != NULL;
}

static const char *loaded(const char *const names[])
{
	struct sought sought = {names, NULL};
	dl_iterate_phdr(note_library, &sought);
	return sought.found;
}

/* An MPI that sends from GPU memory has loaded the driver by the end of MPI_Init, and such memory can't be read by the
 * processor. Not libze_loader.so: MPIs are linked with it, and without a GPU it loads no driver. */
static const char *const gpu_drivers[] = {"libcuda.so", "libamdhip64.so", "libze_intel_gpu", NULL};
/* Libraries that may carry out MPI's collective operations otherwise than by a message for each part. */
static const char *const collective_libraries[] = {"libhcoll.so", "libucc.so", NULL};

/* Version of the messages between ranks. Offers and gathers contain pages, so all ranks' pages have one size. */
#define VERSION 8
_Static_assert(VERSION < 4096, "no page size has these bits");

/* Returns true if all ranks have this version, the same page size and the same mode. */
static bool agree_on_mode(enum hwio_mode mode)
{
	int32_t format = (int32_t)hwio_page_bytes | VERSION;
	/* The same number of values in all versions. */
	int32_t mine[4] = {format, -format, (int32_t)mode, -(int32_t)mode}, least[4] = {0};
	hwio_together_reduce(mine, least, 4, MPI_INT32_T, MPI_MIN);
	if (least[0] != -least[1] && hwio_rank == 0)
		hwio_report_reason("%s differ between the nodes: the job's I/O is left as it is",
			"page sizes, or versions of this library,");
	return least[0] == -least[1] && least[2] == -least[3] && least[2] != HWIO_OFF;
}

/* A rank that writes its part of another's file must not be killed by a limit of its own. */
static void agree_on_file_size(void)
{
	struct rlimit limit;
	int64_t own = INT64_MAX;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < INT64_MAX)
		own = (int64_t)limit.rlim_cur;
	hwio_together_reduce(&own, &hwio_file_bytes_max, 1, MPI_INT64_T, MPI_MIN);
}

/* Any message that is examined has room for a hint. */
#define BYTES_MIN_LEAST 4096

static bool agree_and_start(enum hwio_mode mode)
{
	const char *least = getenv("HEADWATER_IO_BYTES_MIN"), *profile = getenv("HEADWATER_IO_PROFILE");
	hwio_real.MPI_Comm_rank(MPI_COMM_WORLD, &hwio_rank);
	hwio_real.MPI_Comm_size(MPI_COMM_WORLD, &hwio_ranks);
	bool has_all_ranks = has_launcher_verified() || hwio_rendezvous_end(hwio_ranks);
	if (!has_all_ranks || hwio_ranks < 2 || hwio_real.MPI_Comm_dup(MPI_COMM_WORLD, &hwio_control) != MPI_SUCCESS)
		return false;
	hwio_real.MPI_Comm_set_errhandler(hwio_control, MPI_ERRORS_RETURN);
	if (least && atol(least) >= BYTES_MIN_LEAST)
		hwio_bytes_min = (size_t)atol(least);
	/* If this rank can't take part, none does. */
	hwio_file_start();
	const char *driver = loaded(gpu_drivers);
	if (driver && hwio_rank == 0)
		hwio_report_reason("%s is loaded: MPI may be given a GPU's memory, so the job's I/O is left as it is",
			driver);
	bool is_able = hwio_fault_start() && !driver && hwio_page_bytes <= HWIO_PAGE_BYTES_MAX;
	if (is_able)
		hwio_kernel_start();
	if (!agree_on_mode(is_able ? mode : HWIO_OFF))
		return false;
	if (hwio_rank == 0 && getrandom(hwio_cookie, sizeof(hwio_cookie), 0) != sizeof(hwio_cookie))
		hwio_log("the kernel has no random numbers; the job's I/O is left as it is");
	struct {
		unsigned char cookie[HWIO_COOKIE_BYTES];
		uint64_t bytes_min;
		/* MPI uses such a library on all ranks or on none. */
		uint64_t parts_are_messages;
	} common = {.bytes_min = hwio_bytes_min, .parts_are_messages = !loaded(collective_libraries)};
	memcpy(common.cookie, hwio_cookie, sizeof(common.cookie));
	hwio_together_broadcast(&common, sizeof(common));
	memcpy(hwio_cookie, common.cookie, sizeof(common.cookie));
	hwio_bytes_min = common.bytes_min;
	hwio_parts_are_messages = common.parts_are_messages != 0;
	agree_on_file_size();
	hwio_copies_start();
	hwio_comm_start();
	hwio_mounts_start();
	hwio_model_start();
	if (profile)
		hwio_profile_load(profile);
	hwio_trial_start();
	hwio_report_start();
	/* The first walk of the stack loads a library. */
	hwio_context_prepare();
	static const unsigned char none[HWIO_COOKIE_BYTES];
	return memcmp(hwio_cookie, none, sizeof(none)) != 0;
}

/* The mode that this rank proposes before MPI is up. */
static enum hwio_mode wanted = HWIO_OFF;

static void begin_rendezvous(void)
{
	int saved = errno;
	hwio_threads_note();
	wanted = has_other_fault_handler() ? HWIO_OFF : wanted_mode();
	if (wanted != HWIO_OFF && !has_launcher_verified())
		hwio_rendezvous_begin();
	errno = saved;
}

static void start_after_init(bool is_up)
{
	int saved = errno;
	hwio_threads_check();
	hwio_step_in();
	bool is_agreed = is_up && wanted != HWIO_OFF && agree_and_start(wanted);
	if (!is_up)
		hwio_rendezvous_end(0);
	hwio_step_out();
	if (is_agreed) {
		hwio_mode = wanted;
		atexit(hwio_settle_for_others);
	}
	errno = saved;
}

static void finish(void)
{
	if (hwio_mode == HWIO_OFF)
		return;
	hwio_communicates();
	hwio_incoming_fetch(0, UINTPTR_MAX);
	hwio_outstanding_finish();
	hwio_offer_finish();
	hwio_step_in();
	hwio_report();
	const char *profile = getenv("HEADWATER_IO_PROFILE");
	if (profile && hwio_rank == 0)
		hwio_context_save(profile);
	hwio_real.MPI_Comm_free(&hwio_control);
	hwio_step_out();
	/* Reads that were deferred before MPI's end may be accessed after it. */
	hwio_mode = HWIO_OFF;
}

int hwio_MPI_Init(int *count, char ***arguments)
{
	if (hwio_depth == 0)
		begin_rendezvous();
	int result = HWIO_INSIDE(hwio_real.MPI_Init(count, arguments));
	if (hwio_depth == 0)
		start_after_init(result == MPI_SUCCESS);
	return result;
}

int hwio_MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
	if (hwio_depth == 0)
		begin_rendezvous();
	int result = HWIO_INSIDE(hwio_real.MPI_Init_thread(count, arguments, required, provided));
	if (hwio_depth == 0)
		start_after_init(result == MPI_SUCCESS);
	return result;
}

int hwio_MPI_Finalize(void)
{
	if (hwio_depth == 0)
		finish();
	return HWIO_INSIDE(hwio_real.MPI_Finalize());
}
