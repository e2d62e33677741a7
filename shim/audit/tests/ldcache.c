/* sources: ldcache.c sys.c */
/* The loader's cache of this machine: every name as ldconfig prints it. */
#define _GNU_SOURCE
#include "check.h"
#include "loader.h"
#include "sys.h"

/* Returns true if entries of this kind are for programs like this one: not for x32 or 32 bits, for example. */
static bool is_native(const char *kind)
{
#if defined(__x86_64__)
	const char *rest = hwa_after(kind, "libc6,x86-64");
#else
	const char *rest = hwa_after(kind, "libc6,AArch64");
#endif
	return rest && (*rest == '\0' || *rest == ',');
}

int main(void)
{
	FILE *list = popen("/sbin/ldconfig -p 2>/dev/null", "r");
	char line[4096], name[512], kind[64], previous[512] = "";
	unsigned found = 0, left = 0;
	bool unsure;

	CHECK(list, "%m");
	while (fgets(line, sizeof(line), list)) {
		char *path = strstr(line, " => ");

		if (!path || sscanf(line, " %511s (%63[^)])", name, kind) != 2 || !is_native(kind))
			continue;
		/* The first of several entries with the same name counts. */
		if (strcmp(name, previous) == 0)
			continue;
		strcpy(previous, name);
		path[strcspn(path, "\n")] = '\0';
		const char *answer = hwa_ldcache_find(name, &unsure);
		if (!answer) {
			CHECK(unsure, "%s is said to be in no cache", name);
			left++;
			continue;
		}
		CHECK(strcmp(answer, path + 4) == 0, "%s gives %s", line, answer);
		found++;
	}
	if (pclose(list) != 0 || found + left == 0) {
		puts("skipped: ldconfig -p shows no cache");
		return 77;
	}
	CHECK(found > left, "%u found, %u left to glibc", found, left);
	CHECK(!hwa_ldcache_find("libheadwater-nowhere.so.1", &unsure) && !unsure, "what is not there");
	CHECK(!hwa_ldcache_find("", &unsure) && !unsure, "an empty name");
	hwa_ldcache_release();
	CHECK(hwa_ldcache_find("libc.so.6", &unsure) && !unsure, "again after its release");
	return 0;
}
