/* The file has a line for each place: judgement, kind, pattern, numbers, and the place itself. It is replaced as a whole.
 * A job that writes it locks it, reads what others have written since, and adds its own. */
#include "base/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/waits.h"
#include "real.h"

#define HEAD "headwater-io-profile 2\n"
#define FIRST_HEAD "headwater-io-profile 1\n"
#define LINE_BYTES_MAX (HWIO_CONTEXT_NAME_BYTES + 256)

static struct hwio_known *known;
static size_t known_count;
static const char *const judgements[] = {"useful", "off", "wrong"};

static struct hwio_known *find(enum hwio_operation_kind kind, const char *name)
{
	for (size_t i = 0; i < known_count; i++)
		if (known[i].kind == kind && strcmp(known[i].name, name) == 0)
			return &known[i];
	return NULL;
}

const struct hwio_known *hwio_profile_find(enum hwio_operation_kind kind, const char *name)
{
	return find(kind, name);
}

/* Reads a number without a sign, and what is behind it up to the next word. */
static bool take_number(const char **at, uint64_t *number)
{
	char *end;
	errno = 0;
	if (**at < '0' || **at > '9')
		return false;
	*number = strtoull(*at, &end, 10);
	if (errno != 0 || *end != ' ')
		return false;
	*at = end + 1;
	return true;
}

static bool take_word(const char **at, const char *word)
{
	size_t length = strlen(word);
	if (strncmp(*at, word, length) != 0 || (*at)[length] != ' ')
		return false;
	*at += length + 1;
	return true;
}

static bool take_name(const char *at, struct hwio_known *into)
{
	size_t length = strlen(at);
	if (length == 0 || length >= sizeof(into->name))
		return false;
	for (const char *c = at; *c; c++)
		if ((unsigned char)*c < ' ')
			return false;
	memcpy(into->name, at, length + 1);
	return true;
}

bool hwio_profile_line(const char *line, struct hwio_known *into)
{
	uint64_t kind,
		*const numbers[] = {&into->runs, &into->operations, &into->transformed, &into->bytes, &into->file_us,
			&into->messages_us, &into->gained_us};
	memset(into, 0, sizeof(*into));
	size_t judgement = 0, pattern = 0;
	while (judgement < 3 && !take_word(&line, judgements[judgement]))
		judgement++;
	if (judgement == 3 || !take_number(&line, &kind) || kind > HWIO_OP_GATHER)
		return false;
	into->judgement = (enum hwio_judgement)judgement;
	into->kind = (enum hwio_operation_kind)kind;
	while (pattern < HWIO_PATTERNS && !take_word(&line, hwio_pattern_name(pattern)))
		pattern++;
	if (pattern == HWIO_PATTERNS && !take_word(&line, "none"))
		return false;
	into->pattern = (unsigned int)pattern;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!take_number(&line, numbers[i]))
			return false;
	return take_name(line, into);
}

/* "off KIND PLACE" */
static bool parse_first(const char *line, struct hwio_known *into)
{
	uint64_t kind;
	*into = (struct hwio_known){.judgement = HWIO_JUDGED_USELESS, .pattern = HWIO_PATTERNS, .runs = 1};
	if (!take_word(&line, "off") || !take_number(&line, &kind) || kind > HWIO_OP_GATHER)
		return false;
	into->kind = (enum hwio_operation_kind)kind;
	return take_name(line, into);
}

/* Lines longer than any that this library writes are skipped, with all of their parts. */
void hwio_profile_parse(FILE *file)
{
	char line[LINE_BYTES_MAX];
	bool is_start = true;
	known_count = 0;
	if (!known)
		known = calloc(HWIO_PROFILE_MAX, sizeof(*known));
	if (!known || !fgets(line, sizeof(line), file))
		return;
	bool is_first = strcmp(line, FIRST_HEAD) == 0;
	if (!is_first && strcmp(line, HEAD) != 0)
		return;
	while (known_count < HWIO_PROFILE_MAX && fgets(line, sizeof(line), file)) {
		size_t length = strcspn(line, "\n");
		bool is_end = line[length] == '\n';
		struct hwio_known *one = &known[known_count];
		line[length] = 0;
		if (is_start && is_end && (is_first ? parse_first(line, one) : hwio_profile_line(line, one)) &&
			!find(one->kind, one->name))
			known_count++;
		is_start = is_end;
	}
}

void hwio_profile_load(const char *path)
{
	struct stat status;
	/* Opening a pipe would wait for its other end. */
	FILE *file = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;
	if (file) {
		hwio_profile_parse(file);
		fclose(file);
	}
}

static void add(uint64_t *sum, uint64_t more)
{
	*sum = *sum + more < *sum ? UINT64_MAX : *sum + more;
}

/* The judgement is that of the later run; one that has found nothing leaves it. */
static void merge(const struct hwio_known *own)
{
	struct hwio_known *one = find(own->kind, own->name);
	if (!one && (known_count == HWIO_PROFILE_MAX || !known))
		return;
	if (!one) {
		one = &known[known_count++];
		*one = *own;
		return;
	}
	if (one->judgement != HWIO_JUDGED_WRONG)
		one->judgement = own->judgement;
	one->pattern = own->pattern < HWIO_PATTERNS ? own->pattern : one->pattern;
	add(&one->runs, own->runs);
	add(&one->operations, own->operations);
	add(&one->transformed, own->transformed);
	add(&one->bytes, own->bytes);
	add(&one->file_us, own->file_us);
	add(&one->messages_us, own->messages_us);
	add(&one->gained_us, own->gained_us);
}

static void write_known(FILE *file)
{
	fputs(HEAD, file);
	for (size_t i = 0; i < known_count; i++) {
		const struct hwio_known *one = &known[i];
		fprintf(file,
			"%s %d %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			" %s\n",
			judgements[one->judgement], one->kind,
			one->pattern < HWIO_PATTERNS ? hwio_pattern_name(one->pattern) : "none", one->runs,
			one->operations, one->transformed, one->bytes, one->file_us, one->messages_us, one->gained_us,
			one->name);
	}
}

/* Locks the file at the path, which is made if there is none; -1: another job has it, or it can't be locked. The file
 * that was locked may have been replaced meanwhile: then the new one is. */
static int lock_file(const char *path)
{
	struct timespec pause = {0, 10000000};
	double end = hwio_seconds() + HWIO_WAIT_PROFILE_S;
	do {
		struct stat locked, now;
		int file = hwio_libc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
		if (file < 0)
			return -1;
		bool is_locked = hwio_libc.flock(file, LOCK_EX | LOCK_NB) == 0;
		bool is_other = errno != EWOULDBLOCK;
		if (is_locked && fstat(file, &locked) == 0 && stat(path, &now) == 0 && S_ISREG(now.st_mode) &&
			locked.st_ino == now.st_ino && locked.st_dev == now.st_dev)
			return file;
		hwio_libc.close(file);
		if (!is_locked && is_other)
			return -1;
		nanosleep(&pause, NULL);
	} while (hwio_seconds() < end);
	return -1;
}

void hwio_profile_save(const char *path, bool (*next)(size_t index, struct hwio_known *of))
{
	char partial[HWIO_PATH_BYTES_MAX];
	struct hwio_known own;
	struct stat status;
	/* A device such as /dev/null is for nothing to be saved, and would be replaced. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
		if (!S_ISCHR(status.st_mode))
			hwio_log("the profile isn't saved: %s is no file. Name another with HEADWATER_IO_PROFILE",
				path);
		return;
	}
	bool is_short_enough = snprintf(partial, sizeof(partial), "%s.%d.partial", path, (int)getpid()) <
		(int)sizeof(partial);
	int lock = is_short_enough ? lock_file(path) : -1;
	known_count = 0;
	hwio_profile_load(path);
	if (!known)
		known = calloc(HWIO_PROFILE_MAX, sizeof(*known));
	for (size_t i = 0; next(i, &own); i++)
		if (own.name[0])
			merge(&own);
	errno = ENAMETOOLONG;
	FILE *file = is_short_enough ? fopen(partial, "we") : NULL;
	if (!file) {
		hwio_log("the profile %s can't be written: %m", path);
	} else {
		write_known(file);
		bool is_whole = !ferror(file);
		if (fclose(file) != 0 || !is_whole || rename(partial, path) != 0) {
			hwio_log("the profile %s can't be written: %m", path);
			unlink(partial);
		}
	}
	if (lock >= 0)
		hwio_libc.close(lock);
}
