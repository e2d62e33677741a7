/* T_comm is a line through two message sizes, measured between rank 0 and the last rank. A transformed operation costs
 * a broadcast and a gather, whose time on a loaded node is mostly waiting for a processor. */
#include "mpi/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/waits.h"
#include "mpi/control.h"
#include "mpi/mounts.h"
#include "mpi/runs.h"
#include "real.h"

#define SMALL_BYTES 1024UL
#define LARGE_BYTES (512UL << 10)
#define ROUNDS 5
/* Target time for all measurements: they delay the job's start. */
#define MEASURED_S_MAX 0.005
/* Measured for messages of 64 MB and more between processes of a node, with Open MPI and MPICH: 0.12 to 0.30 ns a
 * byte. */
#define MESSAGE_BYTE_S_MIN 0.25e-9
/* Smaller gains don't justify a transformation. */
#define GAIN_S_MIN 0.0005
#define GAIN_ONE_NODE_S_MIN 0.010
/* Cost of one more read: a system call, and a request ahead to the file system. */
#define READ_S 20e-6
/* The same where one server answers all nodes' requests: Clustis3, in figure 9 of the paper, was slower by 2D reads. */
#define SERVER_READ_S 50e-6
/* Below this number of bytes, a write costs a network file system more than sending the data to a rank with larger
 * writes. */
#define APART_BYTES_MIN (64UL << 10)

/* A receiver needs up to so many agreements of all ranks to answer an offer: a row of them is received first, the ranks
 * are invited, and they reply. */
#define ANSWER_AGREEMENTS 4

/* Ranks that share the reading of less wait for the file system one after another. */
#define TOGETHER_BYTES_MIN (8UL << 20)

/* Transforms every pattern, whatever it costs: for tests. Defers no exchange: for a benchmark. */
static bool is_forced, is_at_once;

/* The job's measurements, the same on all ranks. */
static struct {
	/* Time of a message: before its first byte, and for each byte. */
	double latency_s, byte_s;
	/* Time of a broadcast and a gather of a few bytes. */
	double agreement_s;
	/* Time of reading a byte that is in memory. */
	double file_byte_s;
} parameters;

/* When rank 0 began to measure. */
static double begun;

static bool is_time_over(double next_s)
{
	return hwio_seconds() + next_s - begun > MEASURED_S_MAX;
}

/* Rank 0 sends; a message without content is the last one. */
static double time_messages(size_t bytes, char *buffer)
{
	int peer = hwio_ranks - 1;
	double best = 1e9, took = 0;
	for (int i = 0; i < ROUNDS && (i == 0 || !is_time_over(took)); i++) {
		double begin = hwio_seconds();
		hwio_real.MPI_Send(buffer, (int)bytes, MPI_BYTE, peer, HWIO_TAG_ACK, hwio_control);
		hwio_real.MPI_Recv(buffer, 0, MPI_BYTE, peer, HWIO_TAG_ACK, hwio_control, MPI_STATUS_IGNORE);
		took = hwio_seconds() - begin;
		best = took < best ? took : best;
	}
	return best;
}

static void answer_measurement(char *buffer)
{
	for (int bytes = 1; bytes > 0;) {
		MPI_Status status;
		hwio_real.MPI_Recv(buffer, LARGE_BYTES, MPI_BYTE, 0, HWIO_TAG_ACK, hwio_control, &status);
		hwio_real.MPI_Get_count(&status, MPI_BYTE, &bytes);
		if (bytes > 0)
			hwio_real.MPI_Send(buffer, 0, MPI_BYTE, 0, HWIO_TAG_ACK, hwio_control);
	}
}

/* Rank 0's broadcast states whether the round is the last; `next_s` is the expected time of a round. */
static double time_agreement(double next_s)
{
	double best = 1e9;
	char message[1024] = {0};
	int answer = 1, *answers = calloc((size_t)hwio_ranks, sizeof(int));
	if (!answers)
		abort();
	for (int i = 1; message[0] == 0; i++) {
		if (hwio_rank == 0)
			message[0] = i == ROUNDS || is_time_over(next_s);
		double begin = hwio_seconds();
		hwio_real.MPI_Bcast(message, sizeof(message), MPI_BYTE, 0, hwio_control);
		hwio_real.MPI_Gather(&answer, 1, MPI_INT, answers, 1, MPI_INT, 0, hwio_control);
		next_s = hwio_seconds() - begin;
		best = next_s < best ? next_s : best;
	}
	free(answers);
	return best;
}

/* Measures messages between rank 0 and the last rank. */
static void measure_network(void)
{
	char *buffer = calloc(1, LARGE_BYTES), *copy = malloc(LARGE_BYTES);
	if (!buffer || !copy)
		abort();
	begun = hwio_seconds();
	if (hwio_rank == 0) {
		double small = time_messages(SMALL_BYTES, buffer), large = time_messages(LARGE_BYTES, buffer);
		hwio_real.MPI_Send(buffer, 0, MPI_BYTE, hwio_ranks - 1, HWIO_TAG_ACK, hwio_control);
		parameters.latency_s = small;
		parameters.byte_s = large > small ? (large - small) / (double)(LARGE_BYTES - SMALL_BYTES) : 0;
		/* The measured buffer is in a cache, and so faster than what a program sends. */
		if (parameters.byte_s < MESSAGE_BYTE_S_MIN)
			parameters.byte_s = MESSAGE_BYTE_S_MIN;
		double begin = hwio_seconds();
		memcpy(copy, buffer, LARGE_BYTES);
		parameters.file_byte_s = (hwio_seconds() - begin) / (double)LARGE_BYTES;
	} else if (hwio_rank == hwio_ranks - 1) {
		answer_measurement(buffer);
	}
	free(copy);
	free(buffer);
}

void hwio_model_start(void)
{
	const char *choice = getenv("HEADWATER_IO_MODEL");
	is_forced = choice && strcmp(choice, "always") == 0;
	is_at_once = choice && strcmp(choice, "at-once") == 0;
	measure_network();
	/* Ranks that don't measure sleep, so that the others get the processors. */
	hwio_together_wait();
	parameters.agreement_s = time_agreement(4 * parameters.latency_s);
	hwio_together_broadcast(&parameters, sizeof(parameters));
}

bool hwio_model_is_forced(void)
{
	return is_forced;
}

/* The root sends to one rank after another; in a tree, too, all bytes leave the root. */
static double messages_s(size_t bytes, int ranks)
{
	return (double)(ranks - 1) * parameters.latency_s + (double)bytes * parameters.byte_s;
}

/* Returns the gain, or -1 if it is too small: an estimate is not certain, and ranks that share processors wait for each
 * other. */
static double worthwhile(double gain_s, double cost_s)
{
	double least_s = hwio_mounts_is_one_node() ? GAIN_ONE_NODE_S_MIN : GAIN_S_MIN;
	return gain_s > least_s && gain_s > cost_s ? gain_s : -1;
}

double hwio_model_scatter_gain(size_t bytes, int ranks)
{
	double cost_s = 2 * parameters.agreement_s;
	return is_forced ? 1 : worthwhile(messages_s(bytes, ranks) - cost_s, cost_s);
}

double hwio_model_gather_gain(size_t bytes, int ranks)
{
	/* Writers of one file on one node wait for each other. */
	if (is_forced)
		return 1;
	return hwio_mounts_is_one_node() ? -1 : messages_s(bytes, ranks) - 3 * parameters.agreement_s;
}

double hwio_model_broadcast_gain(size_t bytes, bool is_near)
{
	double cost_s = 2 * parameters.agreement_s;
	if (is_forced)
		return 1;
	if (!is_near && bytes < TOGETHER_BYTES_MIN)
		return -1;
	/* The root reads the file in any case. */
	return worthwhile((double)bytes * parameters.byte_s - cost_s, cost_s);
}

/* The gain of a message whose receiver reads `read` bytes by `reads` reads. */
static double message_gain(uint64_t bytes, uint64_t read, uint64_t reads, bool is_one_server)
{
	double cost_s = 2 * parameters.latency_s + (double)reads * (is_one_server ? SERVER_READ_S : READ_S);
	/* The server also sends what lies between the pieces, to each node. */
	if (is_one_server)
		cost_s += (double)(read - bytes) * parameters.byte_s;
	return is_forced ? 1 : worthwhile((double)bytes * parameters.byte_s - cost_s, cost_s);
}

double hwio_model_send_gain(const struct hwio_runs *runs, const struct hwio_file *file)
{
	/* All nodes read from one server, which is no faster than a node. */
	bool is_one_server = hwio_identity_is_nfs(&file->identity);
	uint64_t reads = hwio_runs_reads(runs, hwio_identity_is_shared(&file->identity));
	return message_gain(hwio_runs_bytes(runs), hwio_runs_read_bytes(runs), reads, is_one_server);
}

double hwio_model_forward_gain(size_t bytes)
{
	return message_gain(bytes, bytes, 1, false);
}

double hwio_model_receive_gain(size_t bytes)
{
	if (is_forced)
		return 1;
	return hwio_mounts_is_one_node() ? -1 : (double)bytes * parameters.byte_s - 4 * parameters.latency_s;
}

double hwio_model_timeout_s(size_t bytes)
{
	double message_s = (double)bytes * parameters.byte_s, answer_s = ANSWER_AGREEMENTS * parameters.agreement_s;
	double least_s = message_s > HWIO_WAIT_VERDICT_S ? message_s : HWIO_WAIT_VERDICT_S;
	return least_s + (answer_s < least_s ? answer_s : least_s);
}

bool hwio_model_exchanges(uint64_t bytes, uint64_t pieces, bool is_shared)
{
	return bytes / APART_BYTES_MIN < pieces && (is_forced || (is_shared && !hwio_mounts_is_one_node()));
}

bool hwio_model_defers_exchanges(void)
{
	return !is_at_once;
}

double hwio_model_saved(size_t bytes, int ranks, double seconds)
{
	double before = messages_s(bytes, ranks) + (double)bytes * parameters.file_byte_s;
	return before > seconds ? before - seconds : 0;
}
