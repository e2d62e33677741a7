/* The table of wrappers, and the search of it by name. */
#include "shim.h"
#include "sys.h"

#define REAL(name)
#define FUNCTION(name) \
	void hw_entry0_##name(void); \
	void hw_entry1_##name(void); \
	void hw_entry2_##name(void); \
	void hw_entry3_##name(void);
#include "functions.def"
#undef FUNCTION

_Static_assert(HW_NAMESPACES == 4, "one entry for each namespace");

/* Functions that are called but not stood for have no wrapper. */
void *const hw_wrappers[HW_NAMESPACES][HW_FUNCTIONS] = {
	{
#define REAL(name)
#define FUNCTION(name) [HW_FN_##name] = (void *)hw_entry0_##name,
#include "functions.def"
#undef FUNCTION
	},
	{
#define REAL(name)
#define FUNCTION(name) [HW_FN_##name] = (void *)hw_entry1_##name,
#include "functions.def"
#undef FUNCTION
	},
	{
#define REAL(name)
#define FUNCTION(name) [HW_FN_##name] = (void *)hw_entry2_##name,
#include "functions.def"
#undef FUNCTION
	},
	{
#define REAL(name)
#define FUNCTION(name) [HW_FN_##name] = (void *)hw_entry3_##name,
#include "functions.def"
#undef FUNCTION
	},
};

/* Names in place, not pointers to them: nothing to relocate in every process. */
#define NAME_BYTES 24

static const struct {
	char name[NAME_BYTES];
	uint8_t function;
} sorted[] = {
#define REAL(name)
#define FUNCTION(name) { #name, HW_FN_##name },
#include "functions.def"
#undef FUNCTION
};

_Static_assert(HW_FUNCTIONS <= UINT8_MAX, "a function's number is a byte");
#define REAL(name)
#define FUNCTION(name) _Static_assert(sizeof #name <= NAME_BYTES, #name " is too long");
#include "functions.def"
#undef FUNCTION

int hw_function_named(const char *name)
{
	size_t first = 0, end = sizeof sorted / sizeof *sorted;

	while (first < end) {
		size_t middle = (first + end) / 2;
		int order = strcmp(name, sorted[middle].name);
		if (order == 0)
			return sorted[middle].function;
		if (order < 0)
			end = middle;
		else
			first = middle + 1;
	}
	return -1;
}
