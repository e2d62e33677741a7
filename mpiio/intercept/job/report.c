/* The report, and the recording of patterns for --io observe. */
#include "intercept/job/report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/left.h"
#include "memory/records.h"
#include "mpi/model.h"
#include "mpi/control.h"
#include "mpi/mounts.h"
#include "mpi/runs.h"
#include "real.h"

#define LINE_BYTES_MAX 1024
#define RECEIVED_MAX 64

static const char *decision_of(const struct hwio_context *context)
{
	if (hwio_mode == HWIO_OBSERVE)
		return "observe";
	if (context->is_off)
		return "off";
	return context->transformed > 0 ? "transform" : "leave";
}

static const char *why_of(const struct hwio_context *context)
{
	if (context->why)
		return context->why;
	return context->transformed > 0 ? "expected to be faster" : "nothing was changed";
}

/* Writes a line of JSON. Names are file names and numbers; characters that would need escaping are left out. */
static size_t write_line(const struct hwio_context *context, char *line)
{
	char name[sizeof(context->name)];
	size_t length = 0;
	for (const char *c = context->name; *c; c++)
		if (*c >= ' ' && *c != '"' && *c != '\\')
			name[length++] = *c;
	name[length] = 0;
	/* Only writes that were transformed are counted. */
	uint32_t operations = context->operations > context->transformed ? context->operations : context->transformed;
	int written = snprintf(line, LINE_BYTES_MAX,
		"{\"context\": \"%s\", \"pattern\": \"%s\", \"operations\": %u, \"transformed\": %u, "
		"\"bytes\": %llu, \"decision\": \"%s\", \"why\": \"%s\", \"seconds_saved\": %.6f}\n",
		name, context->has_pattern ? hwio_pattern_name(context->pattern) : "none", operations,
		context->transformed, (unsigned long long)context->bytes, decision_of(context), why_of(context),
		context->seconds_saved);
	return written < 0 || written >= LINE_BYTES_MAX ? 0 : (size_t)written;
}

/* True if this rank has read most of what all ranks have read. */
static bool is_reader;

static void compare_reads(void)
{
	uint64_t own = hwio_left_read_bytes(), all = own;
	hwio_real.MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, hwio_control);
	is_reader = own > all / 2;
}

/* Returns true if the reason is certain enough. Where all ranks read, what they send isn't what they have read. */
static bool is_reported(enum hwio_left why)
{
	return why != HWIO_LEFT_CHANGED || is_reader;
}

/* Writes one line for all call sites that left the pattern for the same reason. */
static size_t write_left(enum hwio_pattern pattern, enum hwio_left why, char *line)
{
	struct hwio_left_sum sum;
	if (!hwio_left_sum(pattern, why, &sum) || !is_reported(why))
		return 0;
	int written = snprintf(line, LINE_BYTES_MAX,
		"{\"context\": \"several places\", \"pattern\": \"%s\", \"operations\": %llu, "
		"\"transformed\": 0, \"bytes\": %llu, \"decision\": \"leave\", \"why\": \"%s\", "
		"\"seconds_saved\": 0, \"seconds_missed\": %.6f}\n",
		hwio_pattern_name(pattern), (unsigned long long)sum.operations, (unsigned long long)sum.bytes,
		hwio_left_why(why), sum.seconds);
	return written < 0 || written >= LINE_BYTES_MAX ? 0 : (size_t)written;
}

static char *format_lines(size_t *bytes)
{
	size_t bytes_max = (hwio_context_count() + HWIO_PATTERNS * HWIO_LEFTS) * LINE_BYTES_MAX + 1;
	char *text = malloc(bytes_max);
	*bytes = 0;
	for (size_t i = 0; text && i < hwio_context_count(); i++) {
		const struct hwio_context *context = hwio_context_at(i);
		/* All ranks have the same contexts without a pattern: rank 0 reports them. */
		if (context->has_pattern || (context->is_off && hwio_rank == 0))
			*bytes += write_line(context, text + *bytes);
	}
	for (int pattern = 0; text && pattern < HWIO_PATTERNS; pattern++)
		for (int why = HWIO_NOT_LEFT + 1; why < HWIO_LEFTS; why++)
			*bytes += write_left(pattern, why, text + *bytes);
	return text;
}

static char *collect_reports(size_t *bytes)
{
	char *own = format_lines(bytes), *all = NULL;
	int size = own ? (int)*bytes : 0, total = 0;
	int *sizes = calloc((size_t)hwio_ranks * 2, sizeof(int)), *offsets = sizes + hwio_ranks;
	if (!sizes)
		abort();
	hwio_real.MPI_Gather(&size, 1, MPI_INT, sizes, 1, MPI_INT, 0, hwio_control);
	for (int i = 0; i < hwio_ranks; i++) {
		offsets[i] = total;
		total += sizes[i];
	}
	if (hwio_rank == 0 && !(all = malloc((size_t)total + 1)))
		abort();
	hwio_real.MPI_Gatherv(own, size, MPI_CHAR, all, sizes, offsets, MPI_CHAR, 0, hwio_control);
	*bytes = (size_t)total;
	free(own);
	free(sizes);
	return all;
}

static void print_transformed(const struct hwio_context *context)
{
	char saved[64] = "";
	/* An estimate of the model, which a busy machine makes pessimistic. */
	if (context->seconds_saved >= 0.001)
		snprintf(saved, sizeof(saved), ", about %.3f s saved", context->seconds_saved);
	hwio_log("%s at %s: %.1f MB of %u operation%s went by file instead of messages%s%s%s",
		hwio_pattern_name(context->pattern), context->name, (double)context->bytes / 1e6, context->transformed,
		context->transformed == 1 ? "" : "s", saved, context->is_off ? "; then " : "",
		context->is_off ? why_of(context) : "");
}

static void print_left(enum hwio_pattern pattern, enum hwio_left why, const struct hwio_left_sum *sum)
{
	char missed[64] = "";
	if (sum->seconds >= 0.001)
		snprintf(missed, sizeof(missed), ", about %.3f s slower than by file", sum->seconds);
	hwio_log("%s: %.3f MB of %llu operation%s left as messages%s: %s", hwio_pattern_name(pattern),
		(double)sum->bytes / 1e6, (unsigned long long)sum->operations, sum->operations == 1 ? "" : "s", missed,
		hwio_left_why(why));
}

/* Prints what was done, in a few lines for users. */
static void print_summary(void)
{
	for (size_t i = 0; i < hwio_context_count(); i++) {
		const struct hwio_context *context = hwio_context_at(i);
		if (context->has_pattern && context->transformed > 0)
			print_transformed(context);
		else if (context->has_pattern)
			hwio_log("%s at %s: %.1f MB, %s", hwio_pattern_name(context->pattern), context->name,
				(double)context->bytes / 1e6, why_of(context));
	}
	for (int pattern = 0; pattern < HWIO_PATTERNS; pattern++)
		for (int why = HWIO_NOT_LEFT + 1; why < HWIO_LEFTS; why++) {
			struct hwio_left_sum sum;
			if (hwio_left_sum(pattern, why, &sum) && is_reported(why))
				print_left(pattern, why, &sum);
		}
}

void hwio_report_reason(const char *format, const char *what)
{
	const char *where = getenv("HEADWATER_IO_REPORT");
	if (!where || strcmp(where, "none") != 0)
		hwio_log(format, what);
}

static double left_gain(enum hwio_pattern pattern, size_t bytes)
{
	switch (pattern) {
	case HWIO_READ_SCATTER:
		return hwio_model_scatter_gain(bytes, hwio_ranks);
	case HWIO_READ_SEND:
		return hwio_model_forward_gain(bytes);
	case HWIO_READ_BROADCAST:
		return hwio_model_broadcast_gain(bytes, hwio_mounts_is_one_node());
	case HWIO_GATHER_WRITE:
		return hwio_model_gather_gain(bytes, hwio_ranks);
	default:
		return hwio_model_receive_gain(bytes);
	}
}

void hwio_report_start(void)
{
	hwio_left_set_gain(left_gain);
}

void hwio_report(void)
{
	const char *where = getenv("HEADWATER_IO_REPORT");
	size_t bytes;
	compare_reads();
	char *all = collect_reports(&bytes);
	if (hwio_rank == 0 && where && strcmp(where, "none") != 0 && strcmp(where, "stderr") != 0) {
		int descriptor = hwio_libc.open(where, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (descriptor < 0 || hwio_libc.write(descriptor, all, bytes) != (ssize_t)bytes)
			hwio_log("the report %s can't be written: %m", where);
		if (descriptor >= 0)
			hwio_libc.close(descriptor);
	} else if (hwio_rank == 0 && (!where || strcmp(where, "stderr") == 0)) {
		print_summary();
	}
	free(all);
}

static void observe(const void *buffer, MPI_Count count, MPI_Datatype type, enum hwio_pattern pattern, int ranks)
{
	struct hwio_layout layout;
	struct hwio_runs runs;
	struct hwio_file *file;
	struct hwio_context *context = NULL;
	size_t bytes = hwio_type_bytes(count, type);
	if (!hwio_examines(bytes) || !hwio_records_any(HWIO_OBSERVED))
		return;
	hwio_step_in();
	hwio_enter();
	if (hwio_layout_make(&layout, buffer, count, type)) {
		if (hwio_runs_of(&layout, &runs, &file, &context, true) && context) {
			double gain = hwio_model_scatter_gain(bytes, ranks);
			if (pattern == HWIO_READ_SEND)
				gain = hwio_model_send_gain(&runs, file);
			else if (pattern == HWIO_READ_BROADCAST)
				gain = hwio_model_broadcast_gain(bytes, hwio_mounts_is_near(&file->identity));
			hwio_context_observed(context, pattern, bytes,
				gain > 0 ? "would be faster by file" : "messages are not slower");
			context->seconds_saved += gain > 0 ? gain : 0;
		}
		hwio_layout_free(&layout);
	}
	hwio_leave();
	hwio_step_out();
}

void hwio_observe_send(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	if (hwio_mode == HWIO_OBSERVE)
		observe(buffer, count, type, HWIO_READ_SEND, 2);
}

void hwio_observe_scatter(const void *buffer, int ranks, MPI_Count count, MPI_Datatype type)
{
	observe(buffer, count * ranks, type, HWIO_READ_SCATTER, ranks);
}

void hwio_observe_broadcast(const void *buffer, MPI_Count count, MPI_Datatype type)
{
	observe(buffer, count, type, HWIO_READ_BROADCAST, 2);
}

/* Buffers that were received lately and are not written yet. */
static struct received {
	uintptr_t low, high;
	int ranks;
} received[RECEIVED_MAX];
static size_t received_next;

void hwio_observe_received(const void *buffer, int ranks, MPI_Count count, MPI_Datatype type)
{
	struct hwio_layout layout;
	if (hwio_mode != HWIO_OBSERVE || !hwio_examines(hwio_type_bytes(count * ranks, type)))
		return;
	hwio_step_in();
	if (hwio_layout_make(&layout, buffer, count * ranks, type)) {
		received[received_next++ % RECEIVED_MAX] = (struct received){layout.low, layout.high, ranks};
		hwio_layout_free(&layout);
	}
	hwio_step_out();
}

void hwio_observe_write(const void *memory, size_t bytes)
{
	uintptr_t low = (uintptr_t)memory, high = low + bytes;
	if (hwio_mode != HWIO_OBSERVE || !hwio_examines(bytes))
		return;
	for (size_t i = 0; i < RECEIVED_MAX; i++) {
		if (received[i].low >= high || received[i].high <= low)
			continue;
		struct hwio_context *context = hwio_context_here(HWIO_OP_WRITE);
		bool is_gather = received[i].ranks > 1;
		double gain = is_gather ? hwio_model_gather_gain(bytes, received[i].ranks)
					: hwio_model_receive_gain(bytes);
		hwio_context_observed(context, is_gather ? HWIO_GATHER_WRITE : HWIO_RECEIVE_WRITE, bytes,
			gain > 0 ? "would be faster by file" : "messages are not slower");
		if (context) {
			hwio_context_begin(context);
			context->seconds_saved += gain > 0 ? gain : 0;
		}
		memset(&received[i], 0, sizeof(received[i]));
		return;
	}
}
