/* The table of wrappers. */
#include "shim.h"

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
