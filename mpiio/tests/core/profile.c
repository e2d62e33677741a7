/* Saved knowledge: lines of any form, merging, several jobs at once; and how often a lost place is tried again. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/profile.h"
#include "base/trial.h"
#include "real.h"

#define JOBS 8
#define QUESTIONS 1000000

static char path[] = "/tmp/hwio-profile.XXXXXX";

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");
	assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static bool next_one(size_t index, struct hwio_known *known)
{
	*known = (struct hwio_known){.judgement = HWIO_JUDGED_USELESS,
		.kind = HWIO_OP_SEND,
		.pattern = HWIO_READ_SEND,
		.runs = 1,
		.operations = 3,
		.bytes = UINT64_MAX / 4,
		.name = "app+0x12 < app+0x34"};
	return index < 1;
}

static bool next_wrong(size_t index, struct hwio_known *known)
{
	next_one(index, known);
	known->judgement = HWIO_JUDGED_WRONG;
	return index < 1;
}

static void check_lines(void)
{
	struct hwio_known known;
	assert(hwio_profile_line("off 3 read+send 1 2 3 4 5 6 7 a b", &known));
	assert(known.judgement == HWIO_JUDGED_USELESS && known.kind == HWIO_OP_SEND && known.pattern == HWIO_READ_SEND);
	assert(known.runs == 1 && known.operations == 2 && known.gained_us == 7 && strcmp(known.name, "a b") == 0);
	static const char *const others[] = {
		"",
		"off",
		"off 3 read+send 1 2 3 4 5 6 7 ",
		"off 3 read+send 1 2 3 4 5 6 a",
		"off 5 read+send 1 2 3 4 5 6 7 a",
		"off -1 read+send 1 2 3 4 5 6 7 a",
		"good 3 read+send 1 2 3 4 5 6 7 a",
		"off 3 read+sent 1 2 3 4 5 6 7 a",
		"off 3 read+send 1 2 3 4 5 6 99999999999999999999999 a",
		"off 3 read+send 1 2 3 4 5 6 7 a\tb",
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert(!hwio_profile_line(others[i], &known));
}

static void check_versions(void)
{
	write_file("headwater-io-profile 1\noff 0 a+0x1\noff 9 a+0x2\nnonsense\n");
	hwio_profile_load(path);
	const struct hwio_known *known = hwio_profile_find(HWIO_OP_READ, "a+0x1");
	assert(known && known->judgement == HWIO_JUDGED_USELESS && !hwio_profile_find(HWIO_OP_READ, "a+0x2"));
	write_file("headwater-io-profile 3\noff 0 none 1 1 1 1 1 1 1 a+0x1\n");
	hwio_profile_load(path);
	assert(!hwio_profile_find(HWIO_OP_READ, "a+0x1"));
	char long_line[2000];
	memset(long_line, 'x', sizeof(long_line) - 1);
	long_line[sizeof(long_line) - 1] = 0;
	FILE *file = fopen(path, "w");
	assert(file);
	fprintf(file, "headwater-io-profile 2\n%s off 0 none 1 1 1 1 1 1 1 a+0x1\noff 0 none 1 1 1 1 1 1 1 a+0x2\n",
		long_line);
	fclose(file);
	hwio_profile_load(path);
	assert(!hwio_profile_find(HWIO_OP_READ, "a+0x1") && hwio_profile_find(HWIO_OP_READ, "a+0x2"));
}

/* A pipe is neither waited for nor replaced. */
static void check_pipe(void)
{
	struct stat status;
	unlink(path);
	assert(mkfifo(path, 0600) == 0);
	hwio_profile_load(path);
	hwio_profile_save(path, next_one);
	assert(stat(path, &status) == 0 && S_ISFIFO(status.st_mode) && unlink(path) == 0);
}

/* Each of several jobs adds its run, and nothing of another is lost. What was wrong stays so. */
static void check_jobs(void)
{
	write_file("headwater-io-profile 2\nuseful 0 read+scatter 4 5 5 6 7 8 9 other\n");
	for (int i = 0; i < JOBS; i++) {
		pid_t child = fork();
		if (child == 0) {
			hwio_profile_save(path, i == 3 ? next_wrong : next_one);
			_exit(0);
		}
	}
	for (int i = 0; i < JOBS; i++) {
		int status;
		assert(wait(&status) > 0 && status == 0);
	}
	hwio_profile_load(path);
	const struct hwio_known *known = hwio_profile_find(HWIO_OP_SEND, "app+0x12 < app+0x34");
	assert(known && known->runs == JOBS && known->operations == 3 * JOBS && known->bytes == UINT64_MAX);
	known = hwio_profile_find(HWIO_OP_READ, "other");
	assert(known && known->runs == 4 && known->gained_us == 9);
	hwio_profile_save(path, next_wrong);
	hwio_profile_save(path, next_one);
	hwio_profile_load(path);
	known = hwio_profile_find(HWIO_OP_SEND, "app+0x12 < app+0x34");
	assert(known && known->judgement == HWIO_JUDGED_WRONG);
}

/* Returns how many of the questions began a trial. */
static int trials(const char *seed)
{
	int count = 0;
	setenv("HEADWATER_TEST_TRIALS", seed, 1);
	hwio_trial_start();
	for (int i = 0; i < QUESTIONS; i++)
		count += hwio_trial_begin();
	return count;
}

int main(void)
{
	int file = mkstemp(path);
	assert(file >= 0);
	close(file);
	check_lines();
	check_versions();
	check_pipe();
	check_jobs();
	unlink(path);
	int first = trials("1");
	assert(first > QUESTIONS * HWIO_TRIAL_PART / 3 && first <= QUESTIONS * HWIO_TRIAL_PART + 1);
	assert(trials("1") == first);
	return 0;
}
