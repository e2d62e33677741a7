/* The I/O library's readers of files that others have written: a profile of an earlier run, and the kernel's mounts. */
#include "base/profile.c"
#include "mpi/mounts.c"

static void start_again(void)
{
	known_count = 0;
	memset(mounts, 0, sizeof(mounts));
	mount_count = 0;
}

/* 1 if no line was taken that is none. */
int fuzz_mpiio_text(const void *data, size_t bytes, int is_profile)
{
	bool is_good = true;
	FILE *file = fmemopen((void *)(uintptr_t)data, bytes, "r");
	start_again();
	if (!file)
		return 1;
	if (is_profile)
		hwio_profile_parse(file);
	else
		hwio_mounts_parse(file, bytes & 1);
	fclose(file);
	for (size_t i = 0; i < known_count; i++)
		is_good = is_good && known[i].judgement <= HWIO_JUDGED_WRONG && known[i].pattern <= HWIO_PATTERNS &&
			known[i].name[0] && strnlen(known[i].name, sizeof(known[i].name)) < sizeof(known[i].name);
	hwio_profile_find(HWIO_OP_READ, "program+0x1234");
	struct hwio_identity identity = {.device = makedev(8, 1)};
	hwio_mounts_share(&identity);
	return is_good && mount_count <= MOUNTS_MAX;
}
