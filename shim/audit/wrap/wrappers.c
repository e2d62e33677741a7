/* The table of wrappers. */
#include "shim.h"

#define REAL(name)
#define FUNCTION(name) \
	void hwa_entry0_##name(void); \
	void hwa_entry1_##name(void); \
	void hwa_entry2_##name(void); \
	void hwa_entry3_##name(void);
#include "functions.def"
#undef FUNCTION

_Static_assert(HWA_NAMESPACES == 4, "one entry for each namespace");

/* Functions of REAL(name) have no wrapper. */
void *const hwa_wrappers[HWA_FUNCTIONS][HWA_NAMESPACES] = {
#define REAL(name)
#define FUNCTION(name) \
	[HWA_FN_##name] = {(void *)hwa_entry0_##name, (void *)hwa_entry1_##name, (void *)hwa_entry2_##name, \
		(void *)hwa_entry3_##name},
#include "functions.def"
#undef FUNCTION
};
