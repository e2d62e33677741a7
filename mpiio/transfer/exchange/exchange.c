/* Exchanges data in rounds of one stripe for each rank, so that its memory is limited. */
#include "transfer/exchange/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/deferred.h"
#include "mpi/mounts.h"
#include "real.h"

/* Space for incoming data, a stripe, and outgoing data, which may be all of a round. */
#define SPACE_BYTES ((2 + HWIO_SHARES_MAX) * HWIO_STRIPE_BYTES_MAX)

uint64_t hwio_runs_below(const struct hwio_runs *runs, uint64_t end)
{
	uint64_t bytes = 0;
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		if (end <= run.offset)
			break;
		uint64_t whole = (end - run.offset) / run.stride;
		if (whole >= run.count) {
			bytes += run.count * run.bytes;
			continue;
		}
		uint64_t rest = end - run.offset - whole * run.stride;
		bytes += whole * run.bytes + (rest < run.bytes ? rest : run.bytes);
	}
	return bytes;
}

bool hwio_runs_are_ascending(const struct hwio_runs *runs)
{
	uint64_t end = 0;
	for (uint64_t i = 0; i < hwio_runs_count(runs); i++) {
		struct hwio_run run = hwio_runs_at(runs, i);
		uint64_t span;
		if (run.count == 0 || run.bytes == 0 || run.stride < run.bytes || run.offset < end ||
			__builtin_mul_overflow(run.count, run.stride, &span) ||
			__builtin_add_overflow(run.offset, span, &end))
			return false;
		end -= run.stride - run.bytes;
	}
	return true;
}

bool hwio_plan_is_good(const struct hwio_plan *plan, uint64_t bytes, uint32_t *own)
{
	bool is_there = false;
	if (plan->count > HWIO_SHARES_MAX || plan->low > plan->high || plan->high > INT64_MAX)
		return false;
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct hwio_share *share = &plan->shares[i];
		if (share->world_rank < 0 || share->world_rank >= hwio_ranks || !hwio_runs_are_bounded(&share->runs) ||
			!hwio_runs_are_ascending(&share->runs) || hwio_runs_below(&share->runs, plan->low) != 0 ||
			hwio_runs_below(&share->runs, plan->high) != hwio_runs_bytes(&share->runs))
			return false;
		if (share->world_rank == hwio_rank) {
			is_there = share->skip <= bytes && hwio_runs_bytes(&share->runs) <= bytes - share->skip;
			*own = i;
		}
	}
	return is_there;
}

static int by_offset(const void *a, const void *b)
{
	const struct hwio_runs *left = &((const struct hwio_share *)a)->runs,
			       *right = &((const struct hwio_share *)b)->runs;
	uint64_t left_offset = left->count > 0 ? left->run[0].offset : UINT64_MAX;
	uint64_t right_offset = right->count > 0 ? right->run[0].offset : UINT64_MAX;
	return (left_offset > right_offset) - (left_offset < right_offset);
}

uint32_t hwio_plan_sort(struct hwio_plan *plan)
{
	uint32_t own = 0;
	qsort(plan->shares, plan->count, sizeof(plan->shares[0]), by_offset);
	while (own < plan->count && plan->shares[own].world_rank != hwio_rank)
		own++;
	return own;
}

char *hwio_exchange_space(void)
{
	char *space = hwio_libc.mmap(NULL, SPACE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return space == MAP_FAILED ? NULL : space;
}

void hwio_exchange_free(char *space)
{
	if (space)
		hwio_libc.munmap(space, SPACE_BYTES);
}

/* Each rank has a domain of the range, and writes a stripe of it in each round. */
struct division {
	uint64_t base, domain_bytes, rounds;
};

static uint64_t quotient_up(uint64_t dividend, uint64_t divisor)
{
	return dividend / divisor + (dividend % divisor != 0);
}

static struct division divide(const struct hwio_plan *plan)
{
	struct division division = {.base = plan->low - plan->low % HWIO_STRIPE_UNIT_BYTES};
	uint64_t units = quotient_up(plan->high - division.base, HWIO_STRIPE_UNIT_BYTES);
	division.domain_bytes = quotient_up(units, plan->count) * HWIO_STRIPE_UNIT_BYTES;
	division.rounds = quotient_up(division.domain_bytes, HWIO_STRIPE_BYTES_MAX);
	return division;
}

/* A stripe of a round, cut to the range. */
struct stripe {
	uint64_t low, high;
};

static uint64_t within(const struct hwio_plan *plan, uint64_t offset)
{
	offset = offset > plan->low ? offset : plan->low;
	return offset < plan->high ? offset : plan->high;
}

static struct stripe stripe_of(const struct hwio_plan *plan, uint64_t round, uint32_t owner)
{
	struct division division = divide(plan);
	uint64_t domain = division.base + owner * division.domain_bytes, end = domain + division.domain_bytes;
	uint64_t low = domain + round * HWIO_STRIPE_BYTES_MAX, high = low + HWIO_STRIPE_BYTES_MAX;
	return (struct stripe){within(plan, low), within(plan, high < end ? high : end)};
}

static size_t part_of(const struct hwio_share *share, struct stripe stripe)
{
	return (size_t)(hwio_runs_below(&share->runs, stripe.high) - hwio_runs_below(&share->runs, stripe.low));
}

/* Iterates over the pieces of runs in a stripe. */
struct walk {
	const struct hwio_runs *runs;
	struct stripe stripe;
	uint64_t run, piece;
	bool is_begun;
};

static bool next_piece(struct walk *walk, struct stripe *piece)
{
	for (; walk->run < hwio_runs_count(walk->runs); walk->run++, walk->is_begun = false) {
		struct hwio_run run = hwio_runs_at(walk->runs, walk->run);
		uint64_t low = walk->stripe.low;
		if (!walk->is_begun)
			walk->piece = low > run.offset ? (low - run.offset) / run.stride : 0;
		walk->is_begun = true;
		while (walk->piece < run.count) {
			uint64_t from = run.offset + walk->piece++ * run.stride, to = from + run.bytes;
			if (from >= walk->stripe.high)
				return false;
			*piece = (struct stripe){
				from > low ? from : low, to < walk->stripe.high ? to : walk->stripe.high};
			if (piece->low < piece->high)
				return true;
		}
	}
	return false;
}

bool hwio_plan_cut(struct hwio_plan *plan, uint64_t low, uint64_t high)
{
	struct stripe all = {low, high};
	if (low >= high)
		return false;
	for (uint32_t i = 0; i < plan->count; i++) {
		struct hwio_share *share = &plan->shares[i];
		struct hwio_runs runs = share->runs;
		struct walk walk = {.runs = &runs, .stripe = all};
		share->skip += (uint32_t)hwio_runs_below(&runs, all.low);
		hwio_runs_clear(&share->runs);
		for (struct stripe piece; next_piece(&walk, &piece);)
			if (!hwio_runs_append(&share->runs, piece.low, piece.high - piece.low))
				return false;
	}
	plan->low = low;
	plan->high = high;
	return true;
}

/* Copies a rank's part to its positions in the stripe. */
static void copy_part(const struct hwio_runs *runs, struct stripe stripe, const char *part, char *memory)
{
	struct walk walk = {.runs = runs, .stripe = stripe};
	for (struct stripe piece; next_piece(&walk, &piece); part += piece.high - piece.low)
		memcpy(memory + (piece.low - stripe.low), part, piece.high - piece.low);
}

static int write_part(int descriptor, struct stripe stripe, const char *memory)
{
	return hwio_write_whole(descriptor, memory, stripe.high - stripe.low, (off_t)stripe.low) ? 0 : errno;
}

/* Bytes of a stripe that no participating rank has are left as they are: another rank writes them. */
static int write_stripe(const struct hwio_plan *plan, struct stripe stripe, int descriptor, const char *memory)
{
	uint64_t bytes = 0;
	int error = 0;
	for (uint32_t i = 0; i < plan->count; i++)
		bytes += part_of(&plan->shares[i], stripe);
	if (bytes == stripe.high - stripe.low)
		return write_part(descriptor, stripe, memory);
	for (uint32_t i = 0; i < plan->count && !error; i++) {
		struct walk walk = {.runs = &plan->shares[i].runs, .stripe = stripe};
		for (struct stripe piece; !error && next_piece(&walk, &piece);)
			error = write_part(descriptor, piece, memory + (piece.low - stripe.low));
	}
	return error;
}

int hwio_exchange_write_ends(int descriptor, uint64_t low, uint64_t high, const char *first, const char *end)
{
	uint64_t head = hwio_page_up(low) - low, tail = high - hwio_page_down(high);
	bool is_good = hwio_write_whole(descriptor, first, head, (off_t)low) &&
		hwio_write_whole(descriptor, end - tail, tail, (off_t)(high - tail));
	return is_good ? 0 : errno;
}

/* Exchanges one message with every other rank that has data for the round. */
static void exchange_round(const struct hwio_plan *plan, uint32_t own, const struct hwio_layout *layout, uint64_t round,
	char *space)
{
	const struct hwio_share *mine = &plan->shares[own];
	struct stripe stripe = stripe_of(plan, round, own);
	char *memory = space, *inbox = space + HWIO_STRIPE_BYTES_MAX, *outbox = inbox + HWIO_STRIPE_BYTES_MAX;
	char *parts[HWIO_SHARES_MAX];
	MPI_Request requests[2 * HWIO_SHARES_MAX];
	int pending = 0;
	for (uint32_t i = 0; i < plan->count; i++) {
		size_t bytes = part_of(&plan->shares[i], stripe);
		parts[i] = inbox;
		inbox += bytes;
		if (i != own && bytes > 0)
			hwio_real.MPI_Irecv(parts[i], (int)bytes, MPI_BYTE, plan->shares[i].world_rank,
				HWIO_TAG_EXCHANGE, hwio_control, &requests[pending++]);
	}
	for (uint32_t i = 0; i < plan->count; i++) {
		struct stripe other = stripe_of(plan, round, i);
		size_t bytes = part_of(mine, other);
		char *to = i == own ? parts[own] : outbox;
		hwio_layout_copy(layout, (size_t)(mine->skip + hwio_runs_below(&mine->runs, other.low)), to, bytes,
			false);
		if (i == own || bytes == 0)
			continue;
		hwio_real.MPI_Isend(outbox, (int)bytes, MPI_BYTE, plan->shares[i].world_rank, HWIO_TAG_EXCHANGE,
			hwio_control, &requests[pending++]);
		outbox += bytes;
	}
	for (int is_done = pending == 0; !is_done;) {
		hwio_real.MPI_Testall(pending, requests, &is_done, MPI_STATUSES_IGNORE);
		if (!is_done)
			hwio_pause();
	}
	for (uint32_t i = 0; i < plan->count; i++)
		copy_part(&plan->shares[i].runs, stripe, parts[i], memory);
}

int hwio_exchange(const struct hwio_plan *plan, uint32_t own, const struct hwio_layout *layout, int descriptor,
	char *space)
{
	int error = 0;
	uint64_t rounds = divide(plan).rounds;
	for (uint64_t round = 0; round < rounds; round++) {
		exchange_round(plan, own, layout, round, space);
		/* After a failure this rank continues to exchange, since the other ranks do. */
		error = error ? error : write_stripe(plan, stripe_of(plan, round, own), descriptor, space);
	}
	return error ? error : hwio_mounts_publish(descriptor);
}

int hwio_exchange_write_here(const struct hwio_plan *plan, char *const data[], int descriptor, char *space)
{
	int error = 0;
	for (uint64_t low = plan->low; low < plan->high && !error; low += HWIO_STRIPE_BYTES_MAX) {
		uint64_t high = low + HWIO_STRIPE_BYTES_MAX;
		struct stripe stripe = {low, high < plan->high ? high : plan->high};
		for (uint32_t i = 0; i < plan->count; i++) {
			const struct hwio_runs *runs = &plan->shares[i].runs;
			copy_part(runs, stripe, data[i] + hwio_runs_below(runs, low), space);
		}
		error = write_stripe(plan, stripe, descriptor, space);
	}
	return error;
}

/* Takes part in the exchange. Returns true if the data is in the file. */
static bool participate(uint64_t id, const struct hwio_layout *layout, int root, int descriptor, char *space)
{
	struct hwio_plan plan;
	struct hwio_verdict end;
	uint32_t own;
	int tag = HWIO_TAG_OF(HWIO_TAG_VERDICT, id);
	hwio_real.MPI_Recv(&plan, sizeof(plan), MPI_BYTE, root, tag, hwio_control, MPI_STATUS_IGNORE);
	if (plan.count == 0)
		return false;
	if (!hwio_plan_is_good(&plan, layout->bytes, &own)) {
		hwio_log("rank %d has sent what is no plan of an exchange", root);
		hwio_real.MPI_Abort(MPI_COMM_WORLD, 1);
		return false;
	}
	int error = hwio_exchange(&plan, own, layout, descriptor, space);
	hwio_offer_reply(id, root, error ? HWIO_REPLY_FAILED : HWIO_REPLY_DONE, error);
	hwio_real.MPI_Recv(&end, sizeof(end), MPI_BYTE, root, tag, hwio_control, MPI_STATUS_IGNORE);
	return end.kind == HWIO_VERDICT_DROP;
}

bool hwio_exchange_join(const struct hwio_verdict *verdict, const struct hwio_layout *layout, int root)
{
	/* Releases this rank's offers, so that no other rank waits for it while it waits for the plan. */
	hwio_offer_release();
	char *space = hwio_exchange_space();
	int error = ENOMEM;
	struct hwio_file *file = NULL;
	if (space && hwio_path_is_sound(verdict->path, verdict->path_bytes)) {
		file = hwio_file_open(verdict->path, O_WRONLY, &verdict->identity);
		error = errno;
	}
	/* No page in the cache may add to what is written. */
	if (file && hwio_identity_is_nfs(&verdict->identity))
		hwio_file_forget(file->descriptor);
	bool is_done = false;
	hwio_offer_reply(verdict->id, root, file ? HWIO_REPLY_READY : HWIO_REPLY_FAILED, error);
	if (file)
		is_done = participate(verdict->id, layout, root, file->descriptor, space);
	if (!is_done)
		hwio_stream_send(layout, layout->bytes, root, HWIO_TAG_OF(HWIO_TAG_DATA, verdict->id));
	if (file)
		hwio_file_release(file);
	hwio_exchange_free(space);
	return is_done;
}
