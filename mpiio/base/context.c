/* A fixed hash table of contexts. Contexts beyond its capacity are not transformed. */
#include "base/context.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/profile.h"
#include "base/trial.h"
#include "real.h"

#define CONTEXTS_MAX 1024
/* More than the library's own frames, which are skipped; the larger also exceeds a language run time's frames. */
#define DEPTH_USUAL (HWIO_CONTEXT_FRAMES + 6)
#define DEPTH_MAX (HWIO_CONTEXT_FRAMES + 20)

const void *hwio_front_address;

static struct hwio_context contexts[CONTEXTS_MAX];
static struct hwio_context *order[CONTEXTS_MAX];
static size_t count;

#define CACHED_SITES 8
/* Prime, so that sampling does not alias with cycles of calls. */
#define REVALIDATE_EVERY 17

/* A call site that is off, as this thread reached it last, and whether other call paths lead to it, too. */
static __thread struct call_site {
	const void *caller, *height;
	struct hwio_context *context;
	enum hwio_operation_kind kind;
	uint32_t skipped;
	bool has_several;
} cached_sites[CACHED_SITES];

extern char __ehdr_start __attribute__((visibility("hidden")));
extern char etext __attribute__((visibility("hidden")));

/* Fortran's run times: their frames are attributed to the statement of the program. */
static const char *const runtimes[] = {"libgfortran", "libifcore", "libflang", "libFortranRuntime"};

static bool is_runtime(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
	for (size_t i = 0; name && i < sizeof(runtimes) / sizeof(*runtimes); i++)
		if (strncmp(name, runtimes[i], strlen(runtimes[i])) == 0)
			return true;
	return false;
}

#define KNOWN_FRAMES 64
/* Bits beside a return address: it isn't the program's, and it is a run time's. */
#define SKIPPED 1UL
#define OF_RUNTIME 2UL
#define BITS 2

static uint64_t look_up(const void *address)
{
	static const void *front_base;
	Dl_info info;
	uint64_t found = (uint64_t)(uintptr_t)address << BITS;
	if (!front_base && hwio_front_address && dladdr(hwio_front_address, &info))
		front_base = info.dli_fbase;
	if (!dladdr(address, &info))
		return found;
	if (is_runtime(info.dli_fname))
		return found | SKIPPED | OF_RUNTIME;
	return info.dli_fbase == front_base ? found | SKIPPED : found;
}

/* Returns true if the frame isn't the program's. What was found out of an address is remembered: `dladdr` goes through
 * all symbols of the library, which may be tens of thousands. Each is one word, which threads share. */
static bool is_skipped(const void *address, bool *is_of_runtime)
{
	static uint64_t known[KNOWN_FRAMES];
	uint64_t *slot = &known[((uintptr_t)address >> 2 ^ (uintptr_t)address >> 8) % KNOWN_FRAMES];
	uint64_t found = __atomic_load_n(slot, __ATOMIC_RELAXED);
	if ((const char *)address >= &__ehdr_start && (const char *)address < &etext)
		return true;
	if (found >> BITS != (uintptr_t)address) {
		found = look_up(address);
		__atomic_store_n(slot, found, __ATOMIC_RELAXED);
	}
	*is_of_runtime |= (found & OF_RUNTIME) != 0;
	return (found & SKIPPED) != 0;
}

static size_t walk_stack(void **frames, bool *is_of_runtime)
{
	void *all[DEPTH_MAX];
	int depth, wanted = DEPTH_USUAL;
	size_t found_count;
	do {
		depth = backtrace(all, wanted);
		found_count = 0;
		*is_of_runtime = false;
		for (int i = 0; i < depth && found_count < HWIO_CONTEXT_FRAMES; i++)
			if (found_count > 0 || !is_skipped(all[i], is_of_runtime))
				frames[found_count++] = all[i];
	} while (found_count < HWIO_CONTEXT_FRAMES && depth == DEPTH_USUAL && (wanted = DEPTH_MAX));
	return found_count;
}

static void describe(struct hwio_context *context)
{
	size_t length = 0;
	for (size_t i = 0; i < HWIO_CONTEXT_FRAMES && context->frames[i]; i++) {
		Dl_info info;
		const char *module = "?";
		uintptr_t offset = (uintptr_t)context->frames[i];
		if (dladdr(context->frames[i], &info) && info.dli_fname) {
			const char *slash = strrchr(info.dli_fname, '/');
			module = slash ? slash + 1 : info.dli_fname;
			offset -= (uintptr_t)info.dli_fbase;
		}
		/* The C library's frame that starts the program ends the call path. */
		if (i > 0 && strncmp(module, "libc.so", 7) == 0)
			break;
		int more = snprintf(context->name + length, sizeof(context->name) - length, "%s%.40s+0x%" PRIxPTR,
			i ? " < " : "", module, offset);
		if (more < 0 || length + (size_t)more >= sizeof(context->name))
			break;
		length += (size_t)more;
	}
}

static void apply_profile(struct hwio_context *context)
{
	const struct hwio_known *known = hwio_profile_find(context->kind, context->name);
	if (!known || known->judgement == HWIO_JUDGED_USEFUL)
		return;
	context->is_off = true;
	context->is_forbidden = known->judgement == HWIO_JUDGED_WRONG;
	context->why = context->is_forbidden ? "in an earlier run what was transformed there was wrong"
					     : "an earlier run gained nothing there";
}

/* Tries a place again that lost: one more operation without a gain, and it is off again. */
static void try_again(struct hwio_context *context)
{
	if (!context->is_off || context->is_forbidden || !hwio_trial_begin())
		return;
	context->is_off = false;
	context->is_on_trial = true;
	context->fruitless = HWIO_FRUITLESS_MAX - 1;
}

static void end_trial(struct hwio_context *context)
{
	if (context->is_on_trial)
		hwio_trial_end();
	context->is_on_trial = false;
}

void hwio_context_prepare(void)
{
	void *frames[HWIO_CONTEXT_FRAMES];
	bool is_of_runtime;
	walk_stack(frames, &is_of_runtime);
}

/* Signals are blocked: a handler of the program that leaves by longjmp would leave the thread marked as within the
 * library. */
struct hwio_context *hwio_context_here(enum hwio_operation_kind kind)
{
	void *frames[HWIO_CONTEXT_FRAMES] = {0};
	bool is_of_runtime;
	hwio_enter();
	hwio_step_in();
	walk_stack(frames, &is_of_runtime);
	hwio_step_out();
	uintptr_t hash = (uintptr_t)kind;
	for (size_t i = 0; i < HWIO_CONTEXT_FRAMES; i++)
		hash = (hash ^ (uintptr_t)frames[i]) * 0x9e3779b97f4a7c15;
	struct hwio_context *found = NULL;
	for (size_t probe = 0; probe < CONTEXTS_MAX && !found; probe++) {
		struct hwio_context *context = &contexts[((hash >> 20) + probe) % CONTEXTS_MAX];
		if (!context->frames[0] && count < CONTEXTS_MAX - 1) {
			context->kind = kind;
			context->is_of_runtime = is_of_runtime;
			memcpy(context->frames, frames, sizeof(frames));
			if (!frames[0])
				context->frames[0] = (void *)1;
			describe(context);
			apply_profile(context);
			order[count++] = context;
			found = context;
		} else if (context->kind == kind && memcmp(context->frames, frames, sizeof(frames)) == 0) {
			found = context;
		} else if (!context->frames[0]) {
			break;
		}
	}
	if (found)
		try_again(found);
	hwio_leave();
	return found;
}

struct hwio_context *hwio_context_of(enum hwio_operation_kind kind, const void *caller)
{
	const void *height = __builtin_frame_address(0);
	struct call_site *site = &cached_sites[((uintptr_t)caller >> 2 ^ (uintptr_t)kind) % CACHED_SITES];
	bool is_it = caller && site->caller == caller && site->height == height && site->kind == kind;
	if (is_it && !site->has_several && ++site->skipped % REVALIDATE_EVERY != 0)
		return site->context;
	struct hwio_context *context = hwio_context_here(kind);
	if (is_it)
		site->has_several = site->has_several || context != site->context;
	else if (caller && context && context->is_off)
		*site = (struct call_site){.caller = caller, .height = height, .context = context, .kind = kind};
	return context;
}

void hwio_context_begin(struct hwio_context *context)
{
	context->operations++;
}

uint32_t hwio_context_operation(const struct hwio_context *context)
{
	return context ? context->operations : 0;
}

void hwio_context_touched(struct hwio_context *context, uint32_t operation)
{
	/* Many reads may fill one buffer: an access to it counts once. */
	if (!context || operation <= context->charged)
		return;
	context->charged = context->operations;
	if (++context->fruitless >= HWIO_FRUITLESS_MAX)
		hwio_context_switch_off(context, "the data that it read or received was accessed at once");
}

void hwio_context_used(struct hwio_context *context)
{
	if (!context)
		return;
	end_trial(context);
	context->fruitless = 0;
	context->charged = context->operations;
}

void hwio_context_timed(struct hwio_context *context, double by_file_s, double by_messages_s)
{
	if (!context)
		return;
	context->seconds_by_file += by_file_s;
	context->seconds_by_messages += by_messages_s;
}

void hwio_context_transformed(struct hwio_context *context, enum hwio_pattern pattern, uint64_t bytes,
	double seconds_saved)
{
	if (!context)
		return;
	context->pattern = pattern;
	context->has_pattern = true;
	context->transformed++;
	context->bytes += bytes;
	context->seconds_saved += seconds_saved;
	hwio_context_used(context);
}

void hwio_context_sent(struct hwio_context *context, double seconds)
{
	if (!context)
		return;
	context->seconds_by_file += seconds;
	context->seconds_saved = context->seconds_saved > seconds ? context->seconds_saved - seconds : 0;
}

void hwio_context_observed(struct hwio_context *context, enum hwio_pattern pattern, uint64_t bytes, const char *why)
{
	if (!context)
		return;
	context->pattern = pattern;
	context->has_pattern = true;
	context->bytes += bytes;
	if (!context->is_off)
		context->why = why;
}

void hwio_context_switch_off(struct hwio_context *context, const char *why)
{
	if (!context || context->is_off)
		return;
	end_trial(context);
	context->is_off = true;
	context->why = why;
}

void hwio_context_forbid(struct hwio_context *context, const char *why)
{
	if (!context)
		return;
	hwio_context_switch_off(context, why);
	context->is_forbidden = true;
	context->why = why;
}

size_t hwio_context_count(void)
{
	return count;
}

struct hwio_context *hwio_context_at(size_t index)
{
	return order[index];
}

const char *hwio_pattern_name(enum hwio_pattern pattern)
{
	static const char *const names[] = {"read+scatter", "read+send", "read+bcast", "gather+write", "receive+write"};
	return names[pattern];
}

/* What a run has found out at a place; it has no name if that is nothing. */
static bool next_known(size_t index, struct hwio_known *known)
{
	if (index >= count)
		return false;
	const struct hwio_context *one = order[index];
	bool is_off = one->is_off || one->is_on_trial;
	*known = (struct hwio_known){.judgement = one->is_forbidden ? HWIO_JUDGED_WRONG
			: is_off                                    ? HWIO_JUDGED_USELESS
								    : HWIO_JUDGED_USEFUL,
		.kind = one->kind,
		.pattern = one->has_pattern ? one->pattern : HWIO_PATTERNS,
		.runs = 1,
		.operations = one->operations > one->transformed ? one->operations : one->transformed,
		.transformed = one->transformed,
		.bytes = one->bytes,
		.file_us = (uint64_t)(one->seconds_by_file * 1e6),
		.messages_us = (uint64_t)(one->seconds_by_messages * 1e6),
		.gained_us = (uint64_t)(one->seconds_saved * 1e6)};
	if (is_off || one->is_forbidden || one->transformed > 0)
		memcpy(known->name, one->name, sizeof(known->name));
	return true;
}

void hwio_context_save(const char *path)
{
	hwio_profile_save(path, next_known);
}
