/* Sizes of structures of pspawn.h, and the offset of a late member of each. A test compares library.rs with them. */
#define _GNU_SOURCE
#include "pspawn.h"

#include "../../../spawn/src/spawn_on_behalf.h"

/* Returns the number with this index, 0 after the last. */
size_t hwsp_spawn_layout(unsigned index)
{
	static const size_t numbers[] = {
		sizeof(pspawn_context_t),
		sizeof(struct pspawn_context_options),
		offsetof(struct pspawn_context_options, argv),
		offsetof(struct pspawn_context_options, start_ms_max),
		offsetof(struct pspawn_context_options, zygote_library),
		offsetof(struct pspawn_context_options, mask_size),
		sizeof(struct pspawn_file_action),
		offsetof(struct pspawn_file_action, path),
		offsetof(struct pspawn_file_action, mode),
		sizeof(struct pspawn_process),
		offsetof(struct pspawn_process, mask),
		offsetof(struct pspawn_process, file_action_count),
		sizeof(struct pspawn_limit),
		sizeof(struct pspawn_options),
		offsetof(struct pspawn_options, numa),
		offsetof(struct pspawn_options, cgroup),
		offsetof(struct pspawn_options, signal_default),
		offsetof(struct pspawn_options, limits),
		offsetof(struct pspawn_options, first),
		sizeof(struct hwsp_description),
		offsetof(struct hwsp_description, fds),
		sizeof(struct hwsp_arrived),
		offsetof(struct hwsp_arrived, attributes),
	};
	return index < sizeof numbers / sizeof numbers[0] ? numbers[index] : 0;
}
