/*
 * The beginning and the end: whether this job's ranks all take part, and what they agree on. Whatever is in doubt
 * leaves the program as it is.
 */
#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "../context.h"
#include "../files/change.h"
#include "../generated-calls.h"
#include "../memory/fault.h"
#include "../memory/private.h"
#include "../model.h"
#include "../report.h"
#include "control.h"
#include "../patterns/incoming.h"
#include "mounts.h"
#include "../muster.h"
#include "../patterns/offer.h"
#include "../patterns/outstanding.h"
#include "real.h"
#include "variant.h"

MPI_Comm hw_control;
int hw_rank, hw_ranks;
unsigned char hw_cookie[HW_COOKIE_BYTES];

int hw_variant_start(void *libmpi, void *(*next)(const char *name))
{
	hw_front_address = (const void *)next;
	if (!hw_bind_real(libmpi, next))
		return -1;
	hw_quick.send = (void *)hw_real.MPI_Send;
	hw_quick.receive = (void *)hw_real.MPI_Recv;
	hw_quick.send_later = (void *)hw_real.MPI_Isend;
	hw_quick.receive_later = (void *)hw_real.MPI_Irecv;
	return 0;
}

static long number(const char *name)
{
	const char *text = getenv(name);
	return text ? atol(text) : -1;
}

/* Whether the launcher says that all ranks are on this node, where they have this process's environment. */
static bool is_one_node(void)
{
	static const char *const pairs[][2] = {
		{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
		{"MPI_LOCALNRANKS", "PMI_SIZE"},
		{"PALS_LOCAL_SIZE", "PALS_SIZE"},
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		long here = number(pairs[i][0]), all = number(pairs[i][1]);
		if (here > 0 && all > 0)
			return here == all;
	}
	return number("SLURM_STEP_NUM_NODES") == 1;
}

/* Whether all ranks have this library, says who has looked. */
static bool is_promised(void)
{
	const char *everywhere = getenv("HEADWATER_IO_EVERYWHERE");
	return everywhere && strcmp(everywhere, "yes") == 0;
}

static enum hw_mode wanted_mode(void)
{
	const char *mode = getenv("HEADWATER_IO");
	if (mode && strcmp(mode, "off") == 0)
		return HW_OFF;
	if (!is_promised() && !is_one_node())
		return HW_OFF;
	if (mode && strcmp(mode, "verify") == 0)
		return HW_VERIFY;
	return mode && strcmp(mode, "observe") == 0 ? HW_OBSERVE : HW_AUTO;
}

/* Threads that were there before MPI was. */
static bool has_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;
	while (tasks && readdir(tasks))
		count++;
	if (tasks)
		closedir(tasks);
	/* With "." and "..". */
	return count > 3;
}

/* Other tools look at faults in their own way. */
static bool is_left_to_others(void)
{
	return hw_real.MPI_Init == NULL || getenv("ASAN_OPTIONS") != NULL;
}

static int note_gpu(struct dl_phdr_info *info, size_t bytes, void *found)
{
	static const char *const drivers[] = {"libcuda.so", "libamdhip64.so", "libze_loader.so"};
	const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
	(void)bytes;
	for (size_t i = 0; i < sizeof(drivers) / sizeof(*drivers); i++) {
		if (strncmp(name, drivers[i], strlen(drivers[i])) == 0)
			*(const char **)found = drivers[i];
	}
	return *(const char **)found != NULL;
}

/*
 * The driver of GPUs in this process, or NULL. An MPI that sends from their memory has loaded it when it is up, and such
 * memory can't be looked at.
 */
static const char *gpu_driver(void)
{
	const char *found = NULL;
	dl_iterate_phdr(note_gpu, &found);
	return found;
}

/* Of what ranks say to each other. */
#define VERSION 3

/* Whether all ranks are of this version, and want the same. */
static bool agree(enum hw_mode mode)
{
	int32_t mine[4] = {VERSION, -VERSION, (int32_t)mode, -(int32_t)mode}, least[4] = {0};
	hw_together_reduce(mine, least, 4, MPI_INT32_T, MPI_MIN);
	return least[0] == -least[1] && least[2] == -least[3] && least[2] != HW_OFF;
}

static void at_exit(void)
{
	hw_settle_for_others();
}

static bool begin(enum hw_mode mode)
{
	const char *least = getenv("HEADWATER_IO_BYTES_MIN"), *profile = getenv("HEADWATER_IO_PROFILE");
	hw_real.MPI_Comm_rank(MPI_COMM_WORLD, &hw_rank);
	hw_real.MPI_Comm_size(MPI_COMM_WORLD, &hw_ranks);
	bool is_everybody = is_promised() || hw_muster_end(hw_ranks);
	if (!is_everybody || hw_ranks < 2 || hw_real.MPI_Comm_dup(MPI_COMM_WORLD, &hw_control) != MPI_SUCCESS)
		return false;
	hw_real.MPI_Comm_set_errhandler(hw_control, MPI_ERRORS_RETURN);
	if (least && atol(least) >= (long)HW_PAGE_BYTES)
		hw_bytes_min = (size_t)atol(least);
	/* Where this rank can't take part, none does. */
	hw_file_start();
	const char *driver = gpu_driver();
	if (driver && hw_rank == 0)
		hw_report_reason("%s is loaded: MPI may be given a GPU's memory, so the job's I/O is left as it is", driver);
	if (!agree(hw_fault_start() && !driver ? mode : HW_OFF))
		return false;
	if (hw_rank == 0 && getrandom(hw_cookie, sizeof(hw_cookie), 0) != sizeof(hw_cookie))
		hw_say("there is no randomness; the job's I/O is left as it is");
	struct {
		unsigned char cookie[HW_COOKIE_BYTES];
		uint64_t bytes_min;
	} common = {.bytes_min = hw_bytes_min};
	memcpy(common.cookie, hw_cookie, sizeof(common.cookie));
	hw_together_tell(&common, sizeof(common));
	memcpy(hw_cookie, common.cookie, sizeof(common.cookie));
	hw_bytes_min = common.bytes_min;
	hw_comm_start();
	hw_mounts_start();
	hw_model_start();
	if (profile)
		hw_context_load(profile);
	/* The first look at the stack loads a library. */
	hw_context_prepare();
	static const unsigned char none[HW_COOKIE_BYTES];
	return memcmp(hw_cookie, none, sizeof(none)) != 0;
}

/* What this rank wants, and asks the others for before MPI is up. */
static enum hw_mode wanted = HW_OFF;

static void ask(void)
{
	int saved = errno;
	if (has_threads())
		hw_private_threads_begin();
	wanted = is_left_to_others() ? HW_OFF : wanted_mode();
	if (wanted != HW_OFF && !is_promised())
		hw_muster_begin();
	errno = saved;
}

static void start(bool is_up)
{
	int saved = errno;
	hw_step_in();
	bool is_agreed = is_up && wanted != HW_OFF && begin(wanted);
	if (!is_up)
		hw_muster_end(0);
	hw_step_out();
	if (is_agreed) {
		hw_mode = wanted;
		atexit(at_exit);
	}
	errno = saved;
}

void hw_finish(void)
{
	if (hw_mode == HW_OFF)
		return;
	hw_communicates();
	hw_incoming_fetch(0, UINTPTR_MAX);
	hw_outstanding_finish();
	hw_offer_finish();
	hw_step_in();
	hw_report();
	const char *profile = getenv("HEADWATER_IO_PROFILE");
	if (profile && hw_rank == 0)
		hw_context_save(profile);
	hw_real.MPI_Comm_free(&hw_control);
	hw_step_out();
	/* What was read before MPI's end may be looked at after it. */
	hw_mode = HW_OFF;
}

int hw_MPI_Init(int *count, char ***arguments)
{
	if (hw_depth == 0)
		ask();
	hw_step_in();
	int result = hw_real.MPI_Init(count, arguments);
	hw_step_out();
	if (hw_depth == 0)
		start(result == MPI_SUCCESS);
	return result;
}

int hw_MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
	if (hw_depth == 0)
		ask();
	hw_step_in();
	int result = hw_real.MPI_Init_thread(count, arguments, required, provided);
	hw_step_out();
	if (hw_depth == 0)
		start(result == MPI_SUCCESS);
	return result;
}

int hw_MPI_Finalize(void)
{
	if (hw_depth == 0)
		hw_finish();
	hw_step_in();
	int result = hw_real.MPI_Finalize();
	hw_step_out();
	return result;
}

int hw_MPI_Abort(MPI_Comm comm, int code)
{
	hw_step_in();
	int result = hw_real.MPI_Abort(comm, code);
	/* With MPICH it may return, and the program goes on until it is ended. */
	hw_step_out();
	return result;
}

int hw_MPI_Comm_free(MPI_Comm *comm)
{
	if (hw_is_busy && hw_depth == 0)
		hw_communicates();
	hw_step_in();
	int result = hw_real.MPI_Comm_free(comm);
	hw_step_out();
	return result;
}

int hw_MPI_Comm_disconnect(MPI_Comm *comm)
{
	if (hw_is_busy && hw_depth == 0)
		hw_communicates();
	hw_step_in();
	int result = hw_real.MPI_Comm_disconnect(comm);
	hw_step_out();
	return result;
}
